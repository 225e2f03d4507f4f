"""Writes tiny checkpoints that see or hear, with random weights, and their processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for p in m['content'] %}{% if p['type'] == 'image' %}IMAGE"
    "{% else %}{{ p['text'] }}{% endif %}{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def tokenizer(special: list[str]) -> Any:
    """Return a tokenizer of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", pad_token="<pad>", bos_token="<bos>")
    made.add_special_tokens({"additional_special_tokens": special})
    return made


def _text(words: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(words),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }


def _save(folder: Path, model: Any, processor: Any) -> str:
    import torch

    torch.manual_seed(0)
    for name, weights in model.named_parameters():
        # The image must matter as much as the text.
        is_seen = "projector" in name or "merger" in name
        weights.data = torch.randn_like(weights) * (0.6 if is_seen else 0.15)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


def write_llava(folder: Path) -> str:
    """Write a LLaVA with four tokens per image."""
    import transformers

    words = tokenizer(["<image>"])
    vision = transformers.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14
    )
    config = transformers.LlavaConfig(
        vision_config=vision.to_dict(),
        text_config=transformers.LlamaConfig(**_text(words)).to_dict(),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_seq_length=4,
    )
    images = transformers.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = transformers.LlavaProcessor(
        images,
        words,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=TEMPLATE.replace("IMAGE", "<image>"),
    )
    return _save(folder, transformers.LlavaForConditionalGeneration(config), processor)


def write_qwen(folder: Path) -> str:
    """Write a Qwen2-VL, whose images take as many tokens as they are large."""
    import transformers

    names = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    words = tokenizer(names)
    start, end, image, video = (words.convert_tokens_to_ids(name) for name in names)
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    config = transformers.Qwen2VLConfig(
        text_config={**_text(words), "rope_parameters": rope},
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2},
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    model = transformers.Qwen2VLForConditionalGeneration(config)
    model.generation_config.pad_token_id = words.pad_token_id
    model.generation_config.eos_token_id = words.eos_token_id
    processor = transformers.Qwen2VLProcessor(
        transformers.Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 56 * 56 * 4}),
        words,
        video_processor=transformers.Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )
    return _save(folder, model, processor)


def write_qwen_audio(folder: Path) -> str:
    """Write a Qwen2-Audio that hears two seconds."""
    import torch
    import transformers

    names = ["<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"]
    words = tokenizer(names)
    hearing = transformers.Qwen2AudioEncoderConfig(
        num_mel_bins=16, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, d_model=32, max_source_positions=100
    )
    config = transformers.Qwen2AudioConfig(
        audio_config=hearing.to_dict(),
        text_config=transformers.Qwen2Config(**_text(words)).to_dict(),
        audio_token_index=words.convert_tokens_to_ids(names[0]),
    )
    sounds = transformers.WhisperFeatureExtractor(
        feature_size=16, sampling_rate=16000, chunk_length=2, return_attention_mask=True
    )
    template = TEMPLATE.replace("'image'", "'audio'").replace("IMAGE", "<|audio_bos|><|AUDIO|><|audio_eos|>")
    processor = transformers.Qwen2AudioProcessor(sounds, words, chat_template=template)
    model = transformers.Qwen2AudioForConditionalGeneration(config)
    model.generation_config.pad_token_id = words.pad_token_id
    model.generation_config.eos_token_id = words.eos_token_id
    torch.manual_seed(0)
    for name, weights in model.named_parameters():
        weights.data = torch.randn_like(weights) * (0.6 if "projector" in name else 0.3)
        if "bias" in name or "norm" in name:
            weights.data = torch.full_like(weights, 0 if "bias" in name else 1)
    # Bytes of other scripts would be parts of characters, and different texts would look alike.
    letters = {index for letter, index in words.get_vocab().items() if letter.isascii() and len(letter) == 1}
    model.get_output_embeddings().weight.data[[index for index in range(len(words)) if index not in letters]] = 0
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)
