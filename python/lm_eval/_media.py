"""Images and sounds in Python code: images of Pillow and decoded sounds, as the library `datasets` gives them.

A worker may have the original package installed, so this module imports only the standard library, and whatever is
installed to decode with. The engine's file is kept with each object, so that what comes back unchanged is that file.
"""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_FILE = "_lm_eval_file"
"""The attribute of an image with the file it was opened from."""

_LOSSLESS_PNG = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")
"""The modes that PNG stores exactly; TIFF stores the others that it knows."""

_LOSSLESS_TIFF = ("I", "F", "CMYK", "YCbCr", "LAB")


class File(NamedTuple):
    """An encoded image or sound, as the engine has it."""

    kind: str
    data: bytes
    name: str | None
    option: str | None
    """The mode of the image or the sampling rate of the sound, if the column of the dataset declares it."""

    def to_wire(self) -> dict[str, Any]:
        """Return the file in terms of JSON."""
        content = base64.b64encode(self.data).decode("ascii")
        return {"$": "m", "v": [self.kind, content, self.name, self.option]}

    def digest(self) -> str:
        """Return the SHA-256 of the content."""
        return hashlib.sha256(self.data).hexdigest()


def restore(kind: str, content: str, name: str | None, option: str | None) -> Any:
    """Return what Python code sees of a file."""
    file = File(kind, base64.b64decode(content), name, option)
    if kind == "image":
        return opened(file)
    return Audio(file) if kind == "audio" else _samples(file)


def opened(file: File) -> Any:
    """Return the image in a file: an image of Pillow that is decoded on first use."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return Unopened(file, "Pillow is not installed; `pip install pillow` installs it")
    try:
        image = Image.open(io.BytesIO(file.data))
        # Reference: as the library `datasets` decodes a column of images.
        if image.getexif().get(Image.ExifTags.Base.Orientation) is not None:
            image = ImageOps.exif_transpose(image)
        if file.option and file.option != image.mode:
            image = image.convert(file.option)
    except Exception as error:  # noqa: BLE001
        return Unopened(file, f"{type(error).__name__}: {error}")
    setattr(image, _FILE, file)
    return image


class Unopened(dict[str, Any]):
    """An image that cannot be opened: `bytes` and `path`, as the dataset stores it, and an error for all else."""

    def __init__(self, file: File, reason: str) -> None:
        super().__init__(bytes=file.data, path=file.name)
        self.file = file
        self.reason = reason

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        what = f" `{self.file.name}`" if self.file.name else ""
        raise OSError(f"The image{what} cannot be opened: {self.reason}")


class Audio(Mapping[str, Any]):
    """A sound: `array`, the samples as one channel of 32-bit floats, and `sampling_rate`. Decoded on first use."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._decoded: dict[str, Any] | None = None

    def _all(self) -> dict[str, Any]:
        if self._decoded is None:
            rate = int(self.file.option) if self.file.option else None
            array, native = _decoded(self.file, rate)
            if rate is not None and rate != native:
                array, native = _resampled(array, native, rate), rate
            self._decoded = {"path": self.file.name, "array": array, "sampling_rate": native}
        return self._decoded

    def __getitem__(self, key: str) -> Any:
        if key == "bytes":
            return self.file.data
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("path", "array", "sampling_rate"))

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return f"<Audio sha256:{self.file.digest()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Audio) and other.file == self.file

    def __hash__(self) -> int:
        return hash(self.file)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        # The methods of the decoder that newer versions of `datasets` return.
        rate = int(self.file.option) if self.file.option else None
        decoder = _torchcodec()
        if decoder is None:
            raise AttributeError(f"`{name}` of a sound needs `torchcodec`; `array` and `sampling_rate` do not")
        return getattr(decoder(self.file.data, sample_rate=rate), name)


def _torchcodec() -> Any:
    """Return the decoder that the library `datasets` uses, if it is installed."""
    try:
        from torchcodec.decoders import AudioDecoder
    except (ImportError, RuntimeError, OSError):
        return None
    return AudioDecoder


def _decoded(file: File, rate: int | None) -> tuple[Any, int]:
    """Return the samples, averaged over the channels, and their rate."""
    import numpy as np

    decoder = _torchcodec()
    if decoder is not None:
        samples = decoder(file.data, sample_rate=rate).get_all_samples()
        channels, found = samples.data.cpu().numpy(), int(samples.sample_rate)
    elif file.data[:4] == b"RIFF":
        channels, found = _read_wav(file.data)
    else:
        try:
            import soundfile
        except ImportError:
            what = f" `{file.name}`" if file.name else ""
            raise ImportError(
                f"The sound{what} is not a WAV file: install `torchcodec` or `soundfile` to decode it"
            ) from None
        read, found = soundfile.read(io.BytesIO(file.data), dtype="float32", always_2d=True)
        channels = read.T
    return np.mean(channels.astype(np.float32, copy=False), axis=0), found


def _resampled(array: Any, native: int, rate: int) -> Any:
    try:
        import librosa
    except ImportError:
        raise ImportError(
            f"The column declares {rate} Hz, and the sound has {native} Hz: install `torchcodec` or `librosa`"
        ) from None
    return librosa.resample(array, orig_sr=native, target_sr=rate)


_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """Return the chunks of a WAV file."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ValueError("not a WAV file")
    found: dict[bytes, bytes] = {}
    start = 12
    while start + 8 <= len(data):
        name, length = data[start : start + 4], int.from_bytes(data[start + 4 : start + 8], "little")
        found.setdefault(name, data[start + 8 : start + 8 + length])
        start += 8 + length + length % 2
    return found


def _stored(data: bytes) -> tuple[Any, int, int]:
    """Return the samples of a WAV file in their own type, one row per channel, and their rate and bits."""
    import numpy as np

    chunks = _chunks(data)
    form, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunks[b"fmt "])
    if form == _EXTENSIBLE:
        form = int.from_bytes(chunks[b"fmt "][24:26], "little")
    content = chunks[b"data"]
    width = bits // 8
    content = content[: len(content) // (width * channels) * width * channels]
    if form == _PCM and bits == 24:
        parts = np.frombuffer(content, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(parts), 4), np.uint8)
        wide[:, 1:] = parts
        samples = wide.view("<i4").reshape(-1)
    else:
        kinds = {(_PCM, 8): "u1", (_PCM, 16): "<i2", (_PCM, 32): "<i4", (_FLOAT, 32): "<f4", (_FLOAT, 64): "<f8"}
        if (form, bits) not in kinds:
            raise ValueError(f"a WAV file of format {form} with {bits} bits cannot be decoded")
        samples = np.frombuffer(content, kinds[form, bits])
    return samples.reshape(-1, channels).T, rate, bits


def _read_wav(data: bytes) -> tuple[Any, int]:
    """Return samples between -1 and 1, one row per channel, and their rate."""
    import numpy as np

    samples, rate, _ = _stored(data)
    if samples.dtype == np.uint8:
        return (samples.astype(np.float32) - 128) / 128, rate
    if samples.dtype.kind == "i":
        return (samples / float(1 << (8 * samples.dtype.itemsize - 1))).astype(np.float32), rate
    return samples, rate


def _samples(file: File) -> Any:
    """Return samples that Python code had computed."""
    array, rate, _ = _stored(file.data)
    return {"array": array[0].copy(), "sampling_rate": rate}


def _of_samples(value: Mapping[str, Any]) -> File | None:
    """Return a dictionary with an array and its sampling rate as a WAV file; `None` if a WAV file cannot hold it."""
    array, rate = value["array"], value["sampling_rate"]
    dtype: Any = getattr(array, "dtype", None)
    if set(value) != {"array", "sampling_rate"} or getattr(array, "ndim", 0) != 1:
        return None
    kinds = {"float32": (_FLOAT, 32), "float64": (_FLOAT, 64), "int16": (_PCM, 16), "int32": (_PCM, 32)}
    if str(dtype) not in kinds or isinstance(rate, bool) or rate != int(rate) or not 0 < rate < 1 << 32:
        return None
    form, bits = kinds[str(dtype)]
    content = array.astype(dtype.newbyteorder("<"), copy=False).tobytes()
    rate = int(rate)
    head = struct.pack("<HHIIHH", form, 1, rate, rate * bits // 8, bits // 8, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(content)) + content
    return File("samples", b"RIFF" + struct.pack("<I", len(body)) + body, None, None)


def stored(value: Any) -> Any:
    """Return nested values with images and sounds as datasets store them."""
    if isinstance(value, (list, tuple)):
        return [stored(item) for item in value]
    file = file_of(value)
    if file is not None:
        return {"bytes": file.data, "path": file.name}
    return {name: stored(item) for name, item in value.items()} if isinstance(value, dict) else value


def from_stored(kind: str, value: Mapping[str, Any], feature: Mapping[str, Any]) -> File | None:
    """Return what a dataset stores of an image or a sound; `None` if it is missing."""
    data, path = value.get("bytes"), value.get("path")
    if data is None:
        if path is None:
            return None
        with open(path, "rb") as file:
            data = file.read()
    option = feature.get("mode" if kind == "Image" else "sampling_rate")
    return File(kind.lower(), data, path, None if option is None else str(option))


def file_of(value: Any) -> File | None:
    """Return the file of an image or a sound: the engine's own if it is unchanged; `None` for any other value."""
    if isinstance(value, File):
        return value
    if isinstance(value, (Unopened, Audio)):
        return value.file
    if isinstance(value, dict):
        return _of_samples(value) if "array" in value and "sampling_rate" in value else None
    pillow = sys.modules.get("PIL.Image")
    if pillow is None or not isinstance(value, pillow.Image):
        return None
    file: File | None = getattr(value, _FILE, None)
    if file is not None and _is_unchanged(value, file):
        return file
    form = "PNG" if value.mode in _LOSSLESS_PNG else "TIFF" if value.mode in _LOSSLESS_TIFF else None
    if form is None:
        return None
    buffer = io.BytesIO()
    value.save(buffer, format=form)
    return File("image", buffer.getvalue(), None, None)


def _is_unchanged(image: Any, file: File) -> bool:
    """Whether an image still is what its file has; methods such as `paste` change it in place."""
    own = vars(image)
    if own.get("_im", own.get("im")) is None:
        return True
    fresh = opened(file)
    return (image.mode, image.size) == (fresh.mode, fresh.size) and image.tobytes() == fresh.tobytes()


def plain(value: Any) -> Any:
    """Return nested values with digests in place of images and sounds, whose `repr` contains an address."""
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value) if type(value) in (list, tuple) else value
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    file = getattr(value, _FILE, None)
    return f"sha256:{file.digest()}" if isinstance(file, File) else value
