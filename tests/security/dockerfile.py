"""Reads a Dockerfile as far as the tests ask: instructions, stages, and what the final image's environment is."""

import re
from dataclasses import dataclass
from pathlib import Path

MOUNTS = {
    "type=secret,id=pip,target=/etc/pip.conf",
    "type=secret,id=uv,target=/etc/uv/uv.toml",
    "type=secret,id=certificates,target=/etc/ssl/certs/ca-certificates.crt",
}
"""What a step of a build may have mounted: how a machine reaches its package index. None of it is in a layer."""


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
        if base not in stages and not (argument and argument[1] in arguments):
            wrong.append(f"FROM {base}: an ARG without default, given by digest")
    ends = [found.name for found in last if found.name in ("USER", "RUN", "COPY")][-1:]
    users = [found.text for found in last if found.name == "USER"]
    if ends != ["USER"] or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        wrong.append(f"USER {users[-1:]}: after all that is run or copied comes USER uid:gid, by number, not 0")
    for found in (found for found in instructions if found.name == "RUN"):
        mounts = re.findall(r"--mount=(\S+)", found.text)
        if re.search(r"\b(curl|wget|sudo|chmod|chown)\b|\|\s*(ba)?sh\b|https?://", found.text) or {*mounts} - MOUNTS:
            wrong.append(f"RUN {found.text}: fetches or gives rights by hand")
        for command in re.split(r"\s&&\s|;\s", found.text):
            if re.search(r"\bpip\b.* (install|sync|download)\b", command) and not re.search(
                r"--require-hashes|--no-deps --no-build-isolation \.$|--no-deps --no-index wheels/", command
            ):
                wrong.append(f"RUN {command}: installs without hashes")
            if "pip sync" in command and "--build-constraints requirements.build.lock" not in command:
                wrong.append(f"RUN {command}: builds with packages without hashes")
    if any(re.search(r"build-essential|gcc|-dev\b", found.text) for found in last):
        wrong.append("the last stage: has a compiler")
    for found in (found for found in instructions if found.name == "COPY" and "--from" not in found.text):
        wrong += [f"COPY {name}: no such path" for name in found.text.split()[:-1] if not (repository / name).exists()]
    secret = re.compile(r"(?i)\b\w*(token|password|secret|credential|api_key)\w*\b")
    texts = [(found.name, re.sub(r"--mount=\S+", "", found.text)) for found in instructions]
    wrong += [f"{name} {text}: names a secret" for name, text in texts if secret.search(text)]
    return wrong
