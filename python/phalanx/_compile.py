"""Compiles skeletons to instructions: a program becomes a macro data flow graph (paper 000, section 2).

A program is compiled from its beginning to its end. An *opening* is the current end of the graph: tokens come out of it
and go into the next part of the program. Fusing adds functions to the instruction that is open there. A new instruction
begins only where it must: after a split, before a join, and where a token has several sources or targets. The user can
ask for more, by ``fuse=False``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from phalanx._folding import Fold, FoldOrSpread, Grain, Offsets, ScanChunk, ScanOrSpread, joined, with_offsets
from phalanx._instructions import Branch, Function, Fused, Inputs, Instruction, Test, While
from phalanx.errors import ProgramError
from phalanx.firing import Given, Options
from phalanx.security import Marks, marks_of
from phalanx.skeletons import TASK, Farm, Graph, Loop, Map, Pipeline, Program, Reduce, Scan, Skeleton, check

if TYPE_CHECKING:
    from phalanx import _native
    from phalanx._native import _Instruction, _Target
    from phalanx._tokens import Code

#: An instruction and the index of its input; None for the results.
Target: TypeAlias = "tuple[Draft, int] | None"

#: Maximum number of instructions. A larger program is taken for a mistake.
MOST_INSTRUCTIONS = 10_000
#: Maximum nesting depth of loops, maps and graphs. Each level needs some nested Python calls here and at interpreters,
#: and Python allows 1000. Pipelines and farms are compiled without recursion and nest to any depth.
MOST_NESTED = 64


class Draft:
    """An instruction under construction."""

    def __init__(self, fan: int, *, joins: int | None = None, inputs: int = 0) -> None:
        self.steps: list[Function | Branch] = []
        self.fan = fan
        self.joins = joins
        self.inputs = inputs
        self.on: list[Target] = []
        #: Targets of tokens that leave at a branch; None without a branch.
        self.past: list[Target] | None = None
        self.splits: int | None = None
        #: The marks of its functions.
        self.marks: Marks = frozenset()
        self.options = Given()

    def continue_as(self, other: Draft) -> None:
        """Appends the steps of the other draft to this one, and takes over its targets."""
        self.steps += other.steps
        self.marks |= other.marks
        self.on, self.past, self.splits = other.on, other.past, other.splits

    def is_link(self) -> bool:
        """Whether it takes one token and gives one token with a single target."""
        special = self.joins is not None or self.past is not None or self.splits is not None or self.inputs > 0
        return not special and len(self.on) == 1

    def passes_on(self) -> bool:
        """Whether tokens, or parts of them, may leave as they came."""
        return not self.steps or isinstance(self.steps[0], Test)

    def native(self, numbers: dict[Draft, int]) -> _Instruction:
        """The instruction in the form that the engine takes."""
        on, past = _targets(self.on, numbers), _targets(self.past or [], numbers)
        return self.fan, self.joins, self.inputs, on, past, self.splits


class Opening:
    """The place where tokens of a fan come out: a draft to which steps can be added, or ways without a target yet."""

    def __init__(self, fan: int, *, draft: Draft | None = None, ways: list[list[Target]] | None = None) -> None:
        self.fan = fan
        self.draft = draft
        self.ways = ways or []
        #: Whether the first function takes several arguments.
        self.spreads = False

    def lead_to(self, target: Target) -> None:
        """Adds a target for the tokens."""
        for way in self.all_ways():
            way.append(target)

    def all_ways(self) -> list[list[Target]]:
        """Every list of targets that its tokens have."""
        return self.ways if self.draft is None else [*self.ways, self.draft.on]

    def sealed(self) -> Opening:
        """The same place, but closed to further steps."""
        return Opening(self.fan, ways=self.all_ways())


class Compiled:
    """A program in the form that the engine and the interpreters take."""

    def __init__(self, entry: list[Target], drafts: list[Draft]) -> None:
        numbers = {draft: number for number, draft in enumerate(drafts)}
        #: What a dashboard calls it; empty without one.
        self.name = ""
        self.entry = _targets(entry, numbers)
        self.instructions = [draft.native(numbers) for draft in drafts]
        self.marks = [draft.marks for draft in drafts]
        #: Empty if no instruction has options.
        self.options = [draft.options for draft in drafts] if any(draft.options != Given() for draft in drafts) else []
        self._passes_on = [draft.passes_on() for draft in drafts]
        #: For each instruction, the instructions that its tokens go to.
        self._after = [{numbers[way[0]] for way in [*draft.on, *(draft.past or [])] if way} for draft in drafts]
        following = [*drafts[1:], None]
        #: Whether every instruction takes one token and gives one to the next.
        self.is_chain = self.entry == [(0, 0)] and all(
            draft.is_link() and draft.on == [next_ and (next_, 0)]
            for draft, next_ in zip(drafts, following, strict=True)
        )
        #: The functions of each instruction.
        self.code: tuple[Any, ...] = tuple(map(_function if self.is_chain else _instruction, drafts))

    def stage(self, native: _native.Manager, code: Code) -> int:
        """Hands the program to the engine and returns its number there."""
        marked_code = code.marked_code or any("code" in marks for marks in self.marks)
        takes, gives = self._marked_tokens(code.marked_data)
        marked = list(zip(takes, gives, strict=True))
        options = [given.native() for given in self.options]
        if self.is_chain:
            return native.stage(len(self.instructions), code.pickled, marked_code, marked, options)
        return native.stage_graph(self.entry, self.instructions, code.pickled, marked_code, marked, options)

    def _marked_tokens(self, all_are: bool) -> tuple[list[bool], list[bool]]:
        """For each instruction, whether what it takes and what it gives is marked.

        A marked function marks the tokens that it takes and gives, wherever else these go. An instruction that only
        splits, joins or tests its tokens passes marks on, in both directions: a list is marked if its parts are.
        """
        takes = [all_are or "data" in marks for marks in self.marks]
        needs, gives = takes.copy(), takes.copy()
        before: tuple[list[bool], ...] = ()
        while any(takes) and before != (needs, takes, gives):
            before = needs.copy(), takes.copy(), gives.copy()
            for one in reversed(range(len(needs))):
                needs[one] |= self._passes_on[one] and any(needs[after] for after in self._after[one])
            first = any(needs[one] for one, _ in filter(None, self.entry))
            for one, _ in filter(None, self.entry):
                takes[one] |= first
            for one, ways in enumerate(self._after):
                takes[one] |= needs[one]
                gives[one] |= any(needs[after] for after in ways) or (self._passes_on[one] and takes[one])
                for after in ways:
                    takes[after] |= gives[one]
        return takes, gives


def compile_program(program: Program) -> Compiled:
    """The graph of a program's instructions. Raises ProgramError if it is nested too deep or has too many."""
    _check_depth(program)
    entry: list[Target] = []
    compiler = _Compiler()
    compiler.add(program, Opening(0, ways=[entry])).lead_to(None)
    return Compiled(entry, compiler.reachable(entry))


class _Compiler:
    def __init__(self) -> None:
        self._fans = 0
        #: The marks of the programs around the current place.
        self._marks: Marks = frozenset()
        #: The options of the programs around it.
        self._options = Given()

    def reachable(self, entry: list[Target]) -> list[Draft]:
        """The instructions that tokens can reach, in the order in which tokens reach them."""
        found: dict[Draft, None] = {}
        ahead = list(reversed(entry))
        while ahead:
            target = ahead.pop()
            if target is not None and target[0] not in found:
                draft = target[0]
                found[draft] = None
                ahead += reversed([*draft.on, *(draft.past or [])])
        if len(found) > MOST_INSTRUCTIONS:
            raise ProgramError(f"a program of {len(found)} instructions has more than {MOST_INSTRUCTIONS}")
        return list(found)

    def add(self, program: Any, at: Opening) -> Opening:
        """Adds a program at this place and returns the place after it."""
        around = self._marks
        # A stack instead of recursion, because pipelines and farms nest to any depth. Each entry: a program, whether it
        # begins an instruction of its own, and the marks around it.
        ahead = [(program, False, around)]
        while ahead:
            program, apart, outer = ahead.pop()
            if isinstance(program, Given):  # the end of a program with options
                self._options, at = program, at.sealed()
                continue
            self._marks = outer | _marks_of(program)
            if apart:
                at = at.sealed()
            if isinstance(program, Options):
                ahead.append((self._options, False, self._marks))
                ahead.append((program.program, at.draft is not None and bool(at.draft.steps), self._marks))
                self._options = program.within(self._options)
            elif isinstance(program, (Farm, Pipeline)):
                apart = _is_apart(program)
                stages = [(stage, number > 0 and apart, self._marks) for number, stage in enumerate(_parts(program))]
                ahead += reversed(stages)
            else:
                at = self._add(program, at)
        self._marks = around
        return at

    # A new skeleton needs a place here. If it has parts, it needs one in `_parts`, which counts how deep programs are.
    # If it calls functions itself, it needs one in `_marks_of`: otherwise data of a marked function travels unmarked.
    def _add(self, program: Any, at: Opening) -> Opening:
        if isinstance(program, Map):
            return self._map(program.split, program.program, program.join, at)
        if isinstance(program, Loop):
            return self._loop(program, at)
        if isinstance(program, Reduce):
            return self._reduce(program, at)
        if isinstance(program, Scan):
            return self._scan(program, at)
        if isinstance(program, Graph):
            return self._graph(program, at)
        check(program)
        return self._step(program, at)

    def _open(self, at: Opening) -> Draft:
        """The draft that is open at this place, or a new one."""
        if at.draft is not None and not at.ways:
            at.draft.marks |= self._marks
            if not at.draft.steps:
                at.draft.options = self._options
            return at.draft
        draft = self._draft(at.fan)
        at.lead_to((draft, 0))
        at.draft, at.ways = draft, []
        return draft

    def _draft(self, fan: int, *, joins: int | None = None, inputs: int = 0) -> Draft:
        draft = Draft(fan, joins=joins, inputs=inputs)
        draft.marks = self._marks
        draft.options = self._options
        return draft

    def _step(self, step: Function, at: Opening) -> Opening:
        draft = self._open(at)
        draft.marks |= marks_of(step)
        draft.steps.append(Inputs(step) if at.spreads else step)
        at.spreads = False
        return at

    def _branch(self, branch: Branch, at: Opening) -> tuple[Draft, list[Target]]:
        """Adds a branch. Returns the draft with the branch, and the way of the tokens that leave there."""
        if at.draft is not None and at.draft.past is not None:
            at.draft, at.ways = None, at.all_ways()  # an instruction can have only one branch
        draft = self._open(at)
        draft.steps.append(branch)
        past: list[Target] = []
        draft.past = past
        return draft, past

    def _split(self, draft: Draft) -> Opening:
        """The place where the parts of the draft's iterable come out."""
        self._fans += 1
        draft.splits = self._fans
        return Opening(self._fans, ways=[draft.on])

    def _join(self, parts: Opening, around: int) -> Draft:
        draft = self._draft(around, joins=parts.fan)
        parts.lead_to((draft, 0))
        return draft

    def _map(self, split: Function | None, body: Any, join: Function | None, at: Opening) -> Opening:
        if split is not None:
            at = self._step(split, at)
        parts = self._split(self._open(at))
        joining = Opening(at.fan, draft=self._join(self.add(body, parts), at.fan))
        return joining if join is None else self._step(join, joining)

    def _loop(self, loop: Loop, at: Opening) -> Opening:
        functions = _fusable(loop.program)
        if functions is not None:
            body = functions[0] if len(functions) == 1 else Fused(functions)
            return self._step(While(loop.while_, body), at)
        test = self._draft(at.fan)
        test.steps.append(Test(loop.while_))
        past: list[Target] = []
        test.past = past
        end = self.add(loop.program, Opening(at.fan, draft=test))
        for before in (at, end):
            # The condition is fired where the token is, so it becomes the end of the instruction that gives the token.
            if before.draft is None or before.ways or before.draft.past is not None:
                before.lead_to((test, 0))
            else:
                before.draft.continue_as(test)
        return Opening(at.fan, ways=[past])

    def _reduce(self, program: Reduce, at: Opening) -> Opening:
        """A tree: while there is more than one result, the results are cut into chunks and folded again."""
        grain = Grain()
        first, past = self._branch(FoldOrSpread(program.function, grain, program.initial), at)
        chunks = self._split(first)
        again = self._join(self.add(Fold(program.function, grain), chunks), at.fan)
        again.steps.append(FoldOrSpread(program.function, grain))
        again.on, again.past, again.splits = first.on, first.past, first.splits
        return Opening(at.fan, ways=[past])

    def _scan(self, program: Scan, at: Opening) -> Opening:
        function, grain = program.function, Grain()
        spread, past = self._branch(ScanOrSpread(function, grain), at)
        chunks = Opening(at.fan, ways=[spread.on])
        sums = self._map(None, Fold(function, grain), Offsets(function, grain), chunks.sealed())
        inputs = self._inputs([chunks, sums], at.fan)
        end = self._map(with_offsets, ScanChunk(function, grain), joined, inputs)
        return Opening(at.fan, ways=[past, *end.all_ways()])

    def _inputs(self, sources: list[Opening], fan: int) -> Opening:
        """The place where a group of one token per source comes out, as arguments of the first function."""
        draft = self._draft(fan, inputs=len(sources))
        for slot, source in enumerate(sources):
            source.lead_to((draft, slot))
        inputs = Opening(fan, draft=draft)
        inputs.spreads = True
        return inputs

    def _graph(self, graph: Graph, at: Opening) -> Opening:
        uses = Counter(source for name in graph.order for source in graph.nodes[name][1])
        places = {TASK: at}
        for name in graph.order:
            program, inputs = graph.nodes[name]
            sources = [places[source] if uses[source] == 1 else places[source].sealed() for source in inputs]
            places[name] = self.add(program, sources[0] if len(sources) == 1 else self._inputs(sources, at.fan))
        return places[graph.result]


def _marks_of(program: Any) -> Marks:
    """The marks of a whole program: those of the skeleton, and of the functions that it calls itself."""
    marks: Marks = program.marks if isinstance(program, Skeleton) else marks_of(program)
    if isinstance(program, (Reduce, Scan)):
        marks |= marks_of(program.function)
    if isinstance(program, Loop):
        marks |= marks_of(program.while_)
        marks = marks.union(*map(marks_of, _fusable(program.program) or ()), _inside(program.program))
    return marks


def _inside(program: Any) -> Marks:
    """The marks of skeletons that are fused away."""
    marks: Marks = frozenset()
    ahead = [program]
    while ahead:
        part = ahead.pop()
        if isinstance(part, (Farm, Pipeline, Loop)):
            marks |= part.marks
            ahead += _parts(part)
    return marks


def _fusable(program: Any) -> tuple[Function, ...] | None:
    """The functions of a program, if it can be computed as one function; else None."""
    functions: list[Function] = []
    ahead = [program]
    while ahead:
        part = ahead.pop()
        if isinstance(part, (Farm, Pipeline)) and not _is_apart(part):
            ahead += reversed(_parts(part))
        elif isinstance(part, Loop) and (body := _fusable(part.program)):
            functions.append(While(part.while_, Fused(body)))
        elif isinstance(part, Skeleton):
            return None
        else:
            functions.append(part)
    return tuple(functions)


def _is_apart(program: Any) -> bool:
    """Whether the stages of a program are instructions of their own."""
    return isinstance(program, Pipeline) and not program.fuse and len(program.stages) > 1


def _parts(program: Any) -> tuple[Any, ...]:
    """The programs that a program is made of."""
    if isinstance(program, Pipeline):
        return program.stages
    if isinstance(program, (Farm, Map, Loop, Options)):
        return (program.program,)
    if isinstance(program, Graph):
        return tuple(node for node, _ in program.nodes.values())
    return ()


def _check_depth(program: Any) -> None:
    ahead = [(program, 0)]
    while ahead:
        part, depth = ahead.pop()
        if depth > MOST_NESTED:
            raise ProgramError(
                f"loops, maps and graphs are nested more than {MOST_NESTED} deep: write the inner ones as a function"
            )
        inner = depth if isinstance(part, (Farm, Pipeline, Options)) else depth + 1
        ahead += [(each, inner) for each in _parts(part)]


def _function(draft: Draft) -> Any:
    functions: tuple[Any, ...] = tuple(draft.steps)
    return functions[0] if len(functions) == 1 else Fused(functions)


def _instruction(draft: Draft) -> Instruction:
    branches = draft.splits is not None or draft.past is not None
    return Instruction(tuple(draft.steps), splits=draft.splits is not None, branches=branches)


def _targets(targets: list[Target], numbers: dict[Draft, int]) -> list[_Target]:
    return [None if target is None else (numbers[target[0]], target[1]) for target in targets]
