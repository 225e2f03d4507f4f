"""Makes small vocabularies, and records the tokens of `transformers` for them in `cases.json`.

Needs sentencepiece 0.2.3, transformers 5.22.2, mistral-common 1.13.1 and protobuf; run in this folder.
"""

import base64
import collections
import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import sentencepiece
import transformers

TEXT = """The first answer is correct, and the second answer is not.
Which of these four numbers is the largest one, and why is it the largest?
A tokenizer splits a sentence into pieces, and every piece has an index.
Der Wagen ist größer als die anderen, aber er fährt nicht schneller.
Les élèves ont préféré étudier près de la fenêtre.
Вопрос был простой, но ответ оказался неверным.
Η ερώτηση ήταν απλή.
問題は簡単でしたが、答えは間違っていました。
这个问题很简单，但是答案不对。
for index in range(10): total += index * 3.14
Finite fields: the file is final, the office is efficient.
""".splitlines()
# Replacements in the table of the unigram model.
RULES = [("ﬁ", "fi"), ("Ａ", "A"), ("　", " "), ("\t", " "), ("e\u0301", "é"), ("½", "1/2")]
TEXTS = [
    "",
    " ",
    "The answer",
    "  two  spaces  ",
    "line\nbreak\r\n\ttab",
    "größer als ﬁnal Ａ　½ e\u0301",
    "Вопрос 問題は 这个 Η ερώτηση",
    "a<s>b</s> c <unk> <user> d<user>e <control> <0x41>",
    "emoji 👩🏽‍🚀, क्षि, \u0000 \u00a0 \ufffd",
    "▁the ▁▁ x",
    "<extra_id_0> is <extra_id_1>.<extra_id_99>",
    "[INST] 12345 isn't WE'RE [/INST]",
]
NEW = {"added_tokens_decoder": {"4": {"content": "<new>", "special": True}}}
CASES = [
    ("merges.model", "llama", {"tokenizer_class": "LlamaTokenizer"}),
    ("merges.model", "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_bos_token": True}),
    ("merges.model", "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_eos_token": True}),
    ("merges.model", "llama", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}),
    ("merges.model", "llama", {"tokenizer_class": "CodeLlamaTokenizer"}),
    ("merges.model", "llama", {}),
    ("merges.model", "code_llama", {}),
    ("merges.model", "gemma", {}),
    ("merges.model", "gemma2", {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True}),
    ("merges.model", "mistral", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}),
    ("merges.model", "internlm2", NEW),
    ("merges.model", "mistral", {"unk_token": None, "bos_token": "<new>"}),
    ("unigram.model", "mistral", {}),
    ("unigram.model", "baichuan", {"add_bos_token": True, "add_eos_token": True}),
    ("unigram.model", "t5", {}),
    ("unigram.model", "mt5", {"tokenizer_class": "T5Tokenizer"}),
    ("bytes.model", "jamba", {}),
    ("bytes.model", "t5", {"extra_ids": 5}),
    ("tekken.json", "mistral", {}),
    ("tekken.json", "mistral3", {"tokenizer_class": "LlamaTokenizer"}),
    ("tekken.json", "ministral3", {"tokenizer_class": "MistralCommonBackend"}),
    ("tekken_old.json", "mistral", {}),
]


def train(name, kind, **settings):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4),
        model_prefix=name,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **settings,
    )
    pathlib.Path(f"{name}.vocab").unlink()


def merged(count):
    """Byte sequences in the order in which pairs of them are merged, beginning with all bytes."""
    words = [[bytes([byte]) for byte in word.encode()] for line in TEXT for word in (" " + line).replace(" ", "\0 ").split("\0")]
    found = [bytes([byte]) for byte in range(256)]
    while len(found) < count:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        found.append(b"".join(best))
        for word in words:
            for index in range(len(word) - 2, -1, -1):
                if index + 1 < len(word) and (word[index], word[index + 1]) == best:
                    word[index : index + 2] = [found[-1]]
    return found


def tekken(special, version):
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"]
    names += ["[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"]
    names += ["[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
    words = merged(360)
    pattern = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tokens = [
        {"rank": rank, "token_bytes": base64.b64encode(word).decode(), "token_str": None} for rank, word in enumerate(words)
    ]
    config = {"pattern": pattern, "num_vocab_tokens": len(words), "default_vocab_size": 370, "default_num_special_tokens": 30}
    file = {"config": {**config, "version": version}, "vocab": tokens}
    if special:
        file["special_tokens"] = [{"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(names)]
    return json.dumps(file)


def record(name, kind, fields):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        own = "tekken.json" if name.endswith(".json") else "spiece.model" if "t5" in kind else "tokenizer.model"
        shutil.copy(name, folder / own)
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
        (folder / "tokenizer_config.json").write_text(json.dumps(fields))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        case = {"vocabulary": name, "file": own, "model_type": kind, "fields": fields, "lines": []}
        for text in TEXTS:
            tokens = tokenizer(text)["input_ids"]
            plain = tokenizer(text, add_special_tokens=False)["input_ids"]
            texts = [tokenizer.decode(tokens), tokenizer.decode(tokens, skip_special_tokens=True)]
            case["lines"].append([tokens, plain, *texts])
        print(name, kind, fields, type(tokenizer).__name__, len(tokenizer), file=sys.stderr)
        return case


def main():
    transformers.logging.set_verbosity_error()
    rules = pathlib.Path("rules.tsv")
    rules.write_text("".join(f"{' '.join(f'{ord(letter):X}' for letter in old)}\t{' '.join(f'{ord(letter):X}' for letter in new)}\n" for old, new in RULES))
    train("merges", "bpe", vocab_size=420, byte_fallback=True, normalization_rule_name="identity",
          user_defined_symbols=["<user>"], control_symbols=["<control>"], character_coverage=0.98)
    train("unigram", "unigram", vocab_size=200, normalization_rule_tsv="rules.tsv", pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
          pad_piece="<pad>", user_defined_symbols=["<user>"])
    train("bytes", "unigram", vocab_size=420, byte_fallback=True, normalization_rule_tsv="rules.tsv", add_dummy_prefix=False,
          control_symbols=["<control>"], character_coverage=0.98)
    rules.unlink()
    pathlib.Path("tekken.json").write_text(tekken(True, "v7"))
    pathlib.Path("tekken_old.json").write_text(tekken(False, "v3"))
    cases = [record(*case) for case in CASES]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    pathlib.Path("cases.json").write_text(f'{{"texts": {json.dumps(TEXTS, ensure_ascii=False)},\n"cases": [\n{lines}\n]}}\n')


main()
