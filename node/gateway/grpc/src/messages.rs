//! The messages of the service by their descriptors, as ProtoJSON and back.

use std::sync::LazyLock;

use althing_calls::OperationError;
use prost::Message as _;
use prost::bytes::Buf as _;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde_json::{Number, Value};
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder, EncodeBuf, Encoder};

pub static DESCRIPTORS: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(COMPILED).expect("a test compiles them again"));
/// The files in `proto`, compiled: a `FileDescriptorSet`, in the repository so that no build compiles them.
const COMPILED: &[u8] = include_bytes!("../proto/descriptors.bin");
/// The name of the service in full, with which its paths begin.
pub const SERVICE: &str = "lf.a2a.v1.A2AService";
/// From here on doubles do not hold every whole number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The method of that name.
pub fn method(name: &str) -> Option<MethodDescriptor> {
    let service = DESCRIPTORS.get_service_by_name(SERVICE)?;
    service.methods().find(|method| method.name() == name)
}

/// A message by its full name.
pub fn message(name: &str) -> Option<MessageDescriptor> {
    DESCRIPTORS.get_message_by_name(name)
}

/// A request as it was read: its tenant, which is the agent, and the operation's parameters as JSON.
pub type Request = Result<(String, Vec<u8>), OperationError>;

/// The parameters of a request, as JSON, and its tenant, which is no parameter: it is the way to the agent.
fn parameters(request: &DynamicMessage) -> Request {
    let options = SerializeOptions::new();
    let refused = |error: serde_json::Error| OperationError::invalid_params(format!("no JSON can say that: {error}"));
    let mut json = request.serialize_with_options(serde_json::value::Serializer, &options).map_err(refused)?;
    whole_numbers(&mut json);
    let tenant = json.as_object_mut().and_then(|members| members.remove("tenant"));
    match tenant {
        Some(Value::String(tenant)) => Ok((tenant, json.to_string().into_bytes())),
        _ => Err(OperationError::agent_unknown(
            "the request names no agent; send the `tenant` of the card's GRPC interface (A2A §8.3.2)",
        )),
    }
}

/// Protobuf's values know doubles only: what was 1 in JSON comes as 1.0, and is 1 again.
pub fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            let double = number.as_f64().filter(|_| number.is_f64());
            let whole = double.filter(|double| double.fract() == 0.0 && double.abs() < EXACT_MAX);
            if let Some(whole) = whole {
                *number = Number::from(whole as i64);
            }
        }
        _ => {}
    }
}

/// What an agent answered, as the message that the method returns.
pub fn encoded(output: MessageDescriptor, json: &[u8]) -> Result<DynamicMessage, OperationError> {
    let refused = |error| format!("the agent's answer is no message of A2A: {error}");
    from_json(output, json).map_err(|error| OperationError::invalid_agent_response(refused(error)))
}

/// A message from JSON. Members that the descriptor does not have are left out.
pub fn from_json(descriptor: MessageDescriptor, json: &[u8]) -> Result<DynamicMessage, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(descriptor, &mut reader, &options)?;
    reader.end()?;
    Ok(message)
}

/// Reads requests of one type, and writes answers of any.
pub struct Codec(pub MessageDescriptor);

impl tonic::codec::Codec for Codec {
    type Encode = DynamicMessage;
    type Decode = Request;
    type Encoder = Writer;
    type Decoder = Reader;

    fn encoder(&mut self) -> Writer {
        Writer
    }

    fn decoder(&mut self) -> Reader {
        Reader(self.0.clone())
    }
}

/// Writes messages.
pub struct Writer;

impl Encoder for Writer {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

/// Reads messages.
pub struct Reader(MessageDescriptor);

impl Decoder for Reader {
    type Item = Request;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Request>, Status> {
        let request = DynamicMessage::decode(self.0.clone(), &mut *buffer);
        Ok(Some(match request {
            Ok(request) => parameters(&request),
            Err(error) => {
                // Where it could not be read further, no other message begins.
                buffer.advance(buffer.remaining());
                Err(OperationError::invalid_request(format!("no protobuf message of that type: {error}")))
            }
        }))
    }
}
