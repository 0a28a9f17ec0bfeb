//! Compiles the descriptors of the binding's messages.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    let descriptors = compiler.include_imports(true).open_files(["a2a.proto", "status.proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_file_descriptor_set())?;
    Ok(())
}
