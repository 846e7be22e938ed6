"""The table of peers: recipes.toml as data, without a look at the machine."""

import dataclasses
import hashlib
import pathlib
import tomllib

PATH = pathlib.Path(__file__).with_name("recipes.toml")
KINDS = ("system", "debian", "wheel", "crate", "settings")
BUILDS = ("cmake", "configure", "sources")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One [[peer]]; the top of recipes.toml explains the fields."""

    name: str
    kind: str
    package: str = ""
    version: str = ""
    shown_version: str = ""
    sha256: str = ""
    library: str = ""
    machine: str = ""
    of: str = ""
    optional: bool = False
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    environment_why: str = ""
    build: str = ""
    source: str = ""
    overlay: str = ""
    options: tuple[str, ...] = ()
    flags: str = ""
    includes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    seconds: float = 1.0
    log_lines: int = 1

    @property
    def variable(self) -> str:
        """The environment variable that can name a library to use instead."""
        return self.name.upper().replace("-", "_") + "_SO"

    @property
    def origin(self) -> str:
        """The source of the library, as results show it."""
        word = {"system": "the system's C library", "debian": "Debian"}.get(self.kind, self.kind)
        return " ".join(part for part in (word, self.package, self.version) if part)

    @property
    def digest(self) -> str:
        """Depends on everything that the build depends on, so an edited recipe builds again."""
        ignored = {"seconds", "log_lines", "optional", "of"}  # a peer `of` another is never built
        fields = {key: value for key, value in dataclasses.asdict(self).items() if key not in ignored}
        return hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()


def _check(recipe: Recipe) -> str | None:
    """What is wrong with a recipe, if anything."""
    if recipe.kind not in KINDS:
        return f"kind is '{recipe.kind}'; allowed: {', '.join(KINDS)}"
    needed = {"system": (), "debian": ("package", "library"), "settings": ("of", "environment")}
    for field in needed.get(recipe.kind, ("package", "version", "sha256", "library")):
        if not getattr(recipe, field):
            return f"kind {recipe.kind} needs '{field}'"
    if recipe.kind == "crate" and recipe.build not in BUILDS:
        return f"build is '{recipe.build}'; allowed: {', '.join(BUILDS)}"
    return None


def _parse(table: dict, path: pathlib.Path) -> Recipe:
    name = table.get("name")
    if not isinstance(name, str) or not name or "/" in name:
        raise ValueError(f"{path.name}: a [[peer]] has no usable name: {name!r}")
    known = {field.name for field in dataclasses.fields(Recipe)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise ValueError(f"{path.name}: peer {name}: unknown key '{unknown[0]}'; allowed: {', '.join(sorted(known))}")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    recipe = Recipe(**{"kind": "", **values})
    wrong = _check(recipe)
    if wrong:
        raise ValueError(f"{path.name}: peer {name}: {wrong}")
    return recipe


def load(path: pathlib.Path | None = None) -> dict[str, Recipe]:
    """The recipes by name, in the order of the file. Raises ValueError that names the peer and what is wrong."""
    path = path or PATH
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("peer", [])
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error
    recipes: dict[str, Recipe] = {}
    for table in tables:
        recipe = _parse(table, path)
        if recipe.name in recipes:
            raise ValueError(f"{path.name}: two peers are called {recipe.name}")
        if recipe.of and (recipe.of not in recipes or recipes[recipe.of].kind in ("system", "settings")):
            raise ValueError(f"{path.name}: peer {recipe.name}: of is '{recipe.of}'; allowed: a library listed before it")
        recipes[recipe.name] = recipe
    return recipes
