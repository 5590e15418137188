"""Reads a Dockerfile as far as the tests ask: instructions, stages, and what the final image's environment is."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction, its continued lines joined and its comments left out."""

    name: str
    text: str


def read(path: Path) -> list[Instruction]:
    """Returns the instructions in order."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [re.match(r"([A-Z]+)\s+(.*)", line) for line in joined.splitlines() if line.strip()]
    assert all(found), f"{path}: a line is no instruction"
    return [Instruction(match[1], " ".join(match[2].split())) for match in found if match]


def last_stage(instructions: list[Instruction]) -> list[Instruction]:
    """Returns the instructions of the image that is pushed."""
    starts = [index for index, instruction in enumerate(instructions) if instruction.name == "FROM"]
    return instructions[starts[-1] :]


def environment(instructions: list[Instruction]) -> dict[str, str]:
    """Returns what the last stage sets."""
    pairs = [pair for found in last_stage(instructions) if found.name == "ENV" for pair in found.text.split()]
    return dict(pair.split("=", 1) for pair in pairs)


def problems(instructions: list[Instruction], repository: Path) -> list[str]:
    """Returns what is not as it has to be; see SECURITY.md."""
    arguments = [found.text for found in instructions if found.name == "ARG"]
    stages = [match[1] for found in instructions if (match := re.search(r" AS (\S+)$", found.text))]
    last = last_stage(instructions)
    wrong = [f"ADD {found.text}: only COPY, which fetches nothing" for found in instructions if found.name == "ADD"]
    for found in (found for found in instructions if found.name == "FROM"):
        base = found.text.split(" AS ")[0]
        argument = re.fullmatch(r"\$\{([A-Z_]+_IMAGE)\}", base)
        is_stage = base in stages or re.fullmatch(r"(build|runtime)-\$\{ACCELERATOR\}", base)
        if not is_stage and not (argument and argument[1] in arguments):
            wrong.append(f"FROM {base}: an ARG without default, given by digest")
    if [found.name for found in last][-1:] != ["USER"] or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", last[-1].text):
        wrong.append(f"{last[-1].name} {last[-1].text}: the last instruction is USER uid:gid, by number, not 0")
    for found in (found for found in instructions if found.name == "RUN"):
        if re.search(r"\b(curl|wget|sudo|chmod|chown)\b|\|\s*(ba)?sh\b|https?://|--mount=type=secret", found.text):
            wrong.append(f"RUN {found.text}: fetches or gives rights by hand")
        if re.search(r"\b(pip|uv pip) (install|sync)\b", found.text) and not re.search(
            r"--require-hashes|--no-deps --no-build-isolation( --compile-bytecode)? \.$", found.text
        ):
            wrong.append(f"RUN {found.text}: installs without hashes")
        if "pip sync" in found.text and "--build-constraints requirements.build.lock" not in found.text:
            wrong.append(f"RUN {found.text}: builds with packages without hashes")
    if any(re.search(r"build-essential|gcc|-dev\b", found.text) for found in last):
        wrong.append("the last stage: has a compiler")
    for found in (found for found in instructions if found.name == "COPY" and "--from" not in found.text):
        wrong += [f"COPY {name}: no such path" for name in found.text.split()[:-1] if not (repository / name).exists()]
    secret = re.compile(r"(?i)\b\w*(token|password|secret|credential|api_key)\w*\b")
    wrong += [f"{found.name} {found.text}: names a secret" for found in instructions if secret.search(found.text)]
    return wrong
