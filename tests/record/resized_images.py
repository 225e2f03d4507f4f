"""Records what the reference's `resize_image` makes of images in all modes, after the column's `mode` was applied.

    .testenv/bin/python tests/record/resized_images.py > tests/vectors/resized_images.json
"""

import base64
import hashlib
import io
import json
import random

from lm_eval.models.utils import resize_image
from PIL import Image, ImageDraw, ImageOps

SIZE = (45, 31)

BOUNDS = [
    {"width": 20},
    {"height": 7},
    {"width": 30, "height": 30},
    {"max_dimension": 16},
    {"width": 44},
]

FILES = [
    ("PNG", "RGB", {}),
    ("PNG", "RGBA", {}),
    ("PNG", "L", {}),
    ("PNG", "LA", {}),
    ("PNG", "P", {}),
    ("PNG", "P", {"transparency": 3}),
    ("PNG", "L", {"transparency": 3}),
    ("PNG", "1", {}),
    ("PNG", "RGB", {"orientation": 6}),
    ("WEBP", "RGB", {"lossless": True}),
    ("WEBP", "RGBA", {"lossless": True}),
    ("GIF", "P", {}),
    ("GIF", "L", {}),
    ("BMP", "RGB", {}),
    ("BMP", "L", {}),
    ("BMP", "P", {}),
    ("BMP", "1", {}),
    ("TIFF", "RGB", {}),
    ("TIFF", "L", {}),
]

COLUMNS = [
    ("PNG", "P", {}, "RGB"),
    ("PNG", "RGBA", {}, "RGB"),
    ("PNG", "L", {}, "RGB"),
    ("PNG", "RGB", {}, "L"),
    ("PNG", "1", {}, "RGB"),
    ("GIF", "P", {}, "RGBA"),
    ("PNG", "RGB", {}, "RGB"),
]


def drawing(number: int, mode: str) -> Image.Image:
    """Return shapes, noise and, where the mode has it, opacity."""
    generator = random.Random(number)
    bands = "RGBA" if mode in ("RGBA", "LA") else "RGB"
    colour = lambda: tuple(generator.randrange(256) for _ in bands)
    image = Image.new(bands, SIZE, colour())
    draw = ImageDraw.Draw(image)
    for _ in range(8):
        left, right = sorted(generator.randrange(SIZE[0]) for _ in range(2))
        top, bottom = sorted(generator.randrange(SIZE[1]) for _ in range(2))
        draw.ellipse([left, top, right, bottom], fill=colour())
    for _ in range(200):
        image.putpixel((generator.randrange(SIZE[0]), generator.randrange(SIZE[1])), colour())
    if mode == "LA":
        return Image.merge("LA", (image.convert("L"), image.getchannel("A")))
    return image.convert(mode)


def encoded(number: int, form: str, mode: str, options: dict) -> bytes:
    """Return a file with a drawing."""
    options = dict(options)
    if "orientation" in options:
        exif = Image.Exif()
        exif[0x0112] = options.pop("orientation")
        options["exif"] = exif
    buffer = io.BytesIO()
    drawing(number, mode).save(buffer, format=form, **options)
    return buffer.getvalue()


def opened(data: bytes, mode: str | None) -> Image.Image:
    """Return an image as the library `datasets` decodes it."""
    image = Image.open(io.BytesIO(data))
    if image.getexif().get(Image.ExifTags.Base.Orientation) is not None:
        image = ImageOps.exif_transpose(image)
    return image.convert(mode) if mode and mode != image.mode else image


cases = []
for number, (form, mode, options, *column) in enumerate(FILES + COLUMNS):
    data = encoded(number, form, mode, options)
    column_mode = column[0] if column else None
    results = []
    for bounds in BOUNDS:
        image = resize_image(
            opened(data, column_mode), bounds.get("width"), bounds.get("height"), bounds.get("max_dimension")
        )
        # As receivers convert it: only opacity that is a channel of its own counts.
        kind = "RGBA" if image.mode in ("RGBA", "LA") else "RGB"
        digest = hashlib.sha256(image.convert(kind).tobytes()).hexdigest()
        results.append({"bounds": bounds, "size": image.size, "kind": kind, "pixels": digest})
    name = f"{form} {mode} {options}".replace(" {}", "")
    cases.append(
        {"name": name, "mode": column_mode, "file": base64.b64encode(data).decode("ascii"), "results": results}
    )


class Sized:
    """An image that is nothing but its size."""

    def __init__(self, width: int, height: int) -> None:
        self.size = (width, height)

    def resize(self, size: tuple[int, int], _: object) -> "Sized":
        """Return an image of another size."""
        return Sized(*size)


generator = random.Random(38)
sizes = []
for number in range(1500):
    size = (generator.randrange(1, 300), generator.randrange(1, 300))
    if number % 3 == 0:
        size = (size[0], size[0])
    which = [("width",), ("height",), ("max_dimension",), ("width", "height")][number % 4]
    bounds = {name: generator.randrange(1, 300) for name in which}
    sizes.append([*size, bounds, *resize_image(Sized(*size), **bounds).size])
print('{"images": ' + json.dumps(cases, indent=1) + ',\n"sizes": [')
print(",\n".join(json.dumps(line) for line in sizes) + "\n]}")
