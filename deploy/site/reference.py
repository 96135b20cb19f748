"""Pages of the API: services, messages and enums of proto/, with their comments."""

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2 as pb

import pages

SCALARS = {kind: name.removeprefix("TYPE_").lower() for name, kind in pb.FieldDescriptorProto.Type.items()}
Comments = dict[tuple[int, ...], str]


def compiled(proto: Path) -> pb.FileDescriptorSet:
    """Returns the descriptors of all files below proto, with their comments."""
    names = sorted(str(path.relative_to(proto)) for path in proto.rglob("*.proto"))
    with tempfile.NamedTemporaryFile() as out:
        arguments = ["-I", str(proto), "--include_source_info", f"--descriptor_set_out={out.name}", *names]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=True)
        return pb.FileDescriptorSet.FromString(Path(out.name).read_bytes())


def written(files: pb.FileDescriptorSet) -> dict[str, str]:
    """Returns a page for each file, by its place in the site."""
    homes: dict[str, str] = {}  # where a type is described
    for file in files.file:
        names = [m.name for m in file.message_type] + [e.name for e in file.enum_type]
        for message in file.message_type:
            names += [f"{message.name}.{n.name}" for n in [*message.nested_type, *message.enum_type]]
        homes |= {f".{file.package}.{name}": f"{page_of(file)}#{pages.slug(name)}" for name in names}
    return {f"api/{page_of(file)}": Writer(file, homes).page() for file in files.file}


def page_of(file: pb.FileDescriptorProto) -> str:
    """Returns the name of the page of a file."""
    name = Path(file.name)
    return f"{name.stem}.md" if file.package == "strandline.v1" else f"{file.package}.md"


class Writer:
    """Writes the page of one file."""

    def __init__(self, file: pb.FileDescriptorProto, homes: dict[str, str]) -> None:
        self.file = file
        self.homes = homes
        self.comments: Comments = {
            tuple(place.path): (place.leading_comments or place.trailing_comments).strip()
            for place in file.source_code_info.location
        }
        self.lines = [f"# {file.package}: {Path(file.name).name}", ""]

    def page(self) -> str:
        """Returns the whole page."""
        for n, service in enumerate(self.file.service):
            self.service(service, (6, n))
        for n, message in enumerate(self.file.message_type):
            self.message(message, message.name, (4, n))
        for n, enum in enumerate(self.file.enum_type):
            self.enum(enum, enum.name, (5, n))
        return "\n".join(self.lines) + "\n"

    def service(self, service: pb.ServiceDescriptorProto, at: tuple[int, ...]) -> None:
        self.head(2, service.name, at)
        for n, method in enumerate(service.method):
            self.head(3, f"{service.name}.{method.name}", (*at, 2, n))
            request, answer = self.linked(method.input_type), self.linked(method.output_type)
            several = "a stream of "
            self.lines += [
                f"Takes {several if method.client_streaming else ''}{request}, "
                f"returns {several if method.server_streaming else ''}{answer}. "
                f"As JSON: `POST /{self.file.package}.{service.name}/{method.name}`.",
                "",
            ]

    def message(self, message: pb.DescriptorProto, name: str, at: tuple[int, ...]) -> None:
        if message.options.map_entry:
            return
        self.head(2, name, at)
        if message.field:
            self.lines += ["| field | number | type | |", "|---|---|---|---|"]
        for n, field in enumerate(message.field):
            about = cell(self.comments.get((*at, 2, n), ""))
            if field.HasField("oneof_index") and not field.proto3_optional:
                about = f"One of `{message.oneof_decl[field.oneof_index].name}`. {about}"
            self.lines.append(f"| `{field.name}` | {field.number} | {self.kind(field, message)} | {about} |")
        self.lines.append("")
        for n, nested in enumerate(message.nested_type):
            self.message(nested, f"{name}.{nested.name}", (*at, 3, n))
        for n, enum in enumerate(message.enum_type):
            self.enum(enum, f"{name}.{enum.name}", (*at, 4, n))

    def enum(self, enum: pb.EnumDescriptorProto, name: str, at: tuple[int, ...]) -> None:
        self.head(2, name, at)
        self.lines += ["| value | number | |", "|---|---|---|"]
        for n, value in enumerate(enum.value):
            self.lines.append(
                f"| `{value.name}` | {value.number} | {cell(self.comments.get((*at, 2, n), ''))} |"
            )
        self.lines.append("")

    def head(self, level: int, name: str, at: tuple[int, ...]) -> None:
        comment = self.comments.get(at, "")
        self.lines += [f"{'#' * level} {name}", "", *([escaped(comment), ""] if comment else [])]

    def kind(self, field: pb.FieldDescriptorProto, message: pb.DescriptorProto) -> str:
        for nested in message.nested_type:
            if nested.options.map_entry and field.type_name.endswith(f".{message.name}.{nested.name}"):
                return f"map of {self.kind(nested.field[0], nested)} to {self.kind(nested.field[1], nested)}"
        kind = self.linked(field.type_name) if field.type_name else SCALARS[field.type]
        if field.label == pb.FieldDescriptorProto.LABEL_REPEATED:
            return f"repeated {kind}"
        return f"optional {kind}" if field.proto3_optional else kind

    def linked(self, name: str) -> str:
        home = self.homes.get(name)
        if home is None:
            return f"`{name.removeprefix('.')}`"
        return f"[{name.removeprefix(f'.{self.file.package}.').removeprefix('.')}]({home})"


def escaped(comment: str) -> str:
    """Returns a comment as Markdown that shows it as it is written."""
    lines = [line.removeprefix(" ") for line in comment.split("\n")]
    return "\n".join(lines).replace("*", "\\*").replace("<", "&lt;").replace("[", "\\[")


def cell(comment: str) -> str:
    """Returns a comment for a cell of a table."""
    return escaped(" ".join(comment.split())).replace("|", "\\|")
