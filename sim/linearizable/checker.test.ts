import { describe, expect, test } from 'vitest'
import { SeededRandom } from '../random.ts'
import { type AppendInput, appendModel, type Tail } from './appends.ts'
import { checkHistory } from './checker.ts'
import { type Model, meanOverlap, type Operation } from './operation.ts'
import { type Ownership, type OwnershipInput, ownershipModel } from './ownership.ts'

const open = Number.POSITIVE_INFINITY

/** Tries every order of every choice of the open operations. */
function isLinearizableByTrying<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: readonly Operation<Input, Output>[],
): boolean {
  const tryFrom = (state: State, left: readonly Operation<Input, Output>[]): boolean => {
    if (left.every((one) => one.return === open)) return true
    return left.some((one) => {
      // What returned before this one was called had to come before it.
      if (left.some((other) => other.return < one.call)) return false
      const next = model.step(state, one.input, one.output)
      return (
        next !== undefined &&
        tryFrom(
          next,
          left.filter((other) => other !== one),
        )
      )
    })
  }
  return tryFrom(model.initial, history)
}

interface Running<Input> {
  readonly call: number
  readonly input: Input
}

/**
 * A short history: a real object behind concurrent calls, whose effects fall at random moments between call and return;
 * sometimes an answer is open, and sometimes one is changed afterwards.
 */
function randomHistory<State, Input, Output>(
  random: SeededRandom,
  model: Model<State, Input, Output>,
  make: { readonly input: () => Input; readonly output: (before: State, after: State) => Output },
): readonly Operation<Input, Output>[] {
  const history: Operation<Input, Output>[] = []
  const running: (Running<Input> & { output?: Output; isDone: boolean })[] = []
  let state = model.initial
  let tick = 0
  const size = random.int(2, 6)
  let begun = 0
  while (begun < size || running.length > 0) {
    const waiting = running.filter((one) => !one.isDone)
    const choice = random.weighted({
      call: begun < size && running.length < 4 ? 2 : 0,
      effect: waiting.length > 0 ? 2 : 0,
      return: running.length > 0 ? 1 : 0,
    })
    tick += 1
    if (choice === 'call') {
      begun += 1
      running.push({ call: tick, input: make.input(), isDone: false })
    } else if (choice === 'effect') {
      const one = random.pick(waiting)
      const next = model.step(state, one.input, undefined)
      if (next !== undefined) {
        one.output = make.output(state, next)
        state = next
      }
      one.isDone = true
    } else {
      const one = random.pick(running)
      running.splice(running.indexOf(one), 1)
      const isOpen = one.output === undefined || random.chance(0.15)
      const operation = { key: 'k', call: one.call, input: one.input }
      if (isOpen || one.output === undefined) history.push({ ...operation, return: open })
      else history.push({ ...operation, return: tick, output: one.output })
    }
  }
  return history
}

const ownership = (random: SeededRandom) => ({
  input: (): OwnershipInput => {
    const attemptId = random.pick(['a', 'b'])
    const type = random.pick(['place', 'claimed', 'declined', 'ended', 'expire', 'read'] as const)
    if (type === 'read') return { type }
    if (type === 'place' || type === 'expire') return { type, attemptId }
    return { type, attemptId, epoch: random.int(1, 2) }
  },
  output: (_before: Ownership, after: Ownership): Ownership =>
    random.chance(0.12) ? { ...after, epoch: random.int(0, 2) } : after,
})

const appends = (random: SeededRandom) => ({
  input: (): AppendInput =>
    random.chance(0.6)
      ? { type: 'append', id: random.pick(['x', 'y', 'z']), lines: random.int(1, 2) }
      : { type: 'tail' },
  output: (_before: Tail, after: Tail): Tail => (random.chance(0.12) ? { ...after, count: random.int(0, 4) } : after),
})

describe('the checker', () => {
  test.each([
    ['ownership', (random: SeededRandom) => agrees(random, ownershipModel, ownership(random))],
    ['appends', (random: SeededRandom) => agrees(random, appendModel, appends(random))],
  ])('agrees with trying every order on histories of %s', (_name, one) => {
    const verdicts = Array.from({ length: 4_000 }, (_, seed) => one(new SeededRandom(seed, 'history')))

    expect(verdicts.filter(({ isAgreed }) => !isAgreed)).toEqual([])
    // Both kinds occur often, so that neither answer is right by chance.
    expect(verdicts.filter(({ isLinearizable }) => isLinearizable).length).toBeGreaterThan(1_000)
    expect(verdicts.filter(({ isLinearizable }) => !isLinearizable).length).toBeGreaterThan(400)
  })

  test('says undecided when it gives up, and not that a history is bad', () => {
    const history = Array.from({ length: 12 }, (_, index) =>
      appended({ call: index + 1, return: 100 + index }, index + 1),
    )

    expect(checkHistory(appendModel, history).verdict).toBe('linearizable')
    expect(checkHistory(appendModel, history.reverse(), { stepsMax: 5 }).verdict).toBe('undecided')
  })

  test('names the key of a violation, wherever it is', () => {
    const good = appended({ call: 1, return: 2 }, 1)
    const bad = { ...appended({ call: 3, return: 4 }, 7), key: 'other' }

    expect(checkHistory(appendModel, [good, bad])).toMatchObject({ verdict: 'violated', key: 'other' })
  })
})

function agrees<State, Input, Output>(
  random: SeededRandom,
  model: Model<State, Input, Output>,
  make: { readonly input: () => Input; readonly output: (before: State, after: State) => Output },
) {
  const history = randomHistory(random, model, make)
  const isLinearizable = isLinearizableByTrying(model, history)
  const { verdict } = checkHistory(model, history)
  return { isLinearizable, isAgreed: verdict === (isLinearizable ? 'linearizable' : 'violated') }
}

function appended(
  span: { readonly call: number; readonly return: number },
  count: number,
): Operation<AppendInput, Tail> {
  const id = `a${count}`
  return { key: 'k', ...span, input: { type: 'append', id, lines: 1 }, output: { count, last: id } }
}

/** Operations one after the other, each with the answer that it got. */
function inOrder<Input, Output>(steps: readonly (readonly [Input, Output | undefined])[]): Operation<Input, Output>[] {
  return steps.map(([input, output], index) => ({
    key: 'k',
    call: 2 * index + 1,
    return: output === undefined ? open : 2 * index + 2,
    input,
    ...(output === undefined ? {} : { output }),
  }))
}

describe('a history is refused in which', () => {
  const none = ownershipModel.initial
  const placed: Ownership = { ...none, epoch: 1, attemptId: 'a', phase: 'offered' }
  const place = (attemptId: string): OwnershipInput => ({ type: 'place', attemptId })
  const ended = (attemptId: string, epoch: number): OwnershipInput => ({ type: 'ended', attemptId, epoch })
  const declined: OwnershipInput = { type: 'declined', attemptId: 'a', epoch: 1 }
  const replaced: Ownership = { ...placed, epoch: 2, attemptId: 'b' }

  test.each<readonly [string, readonly (readonly [OwnershipInput, Ownership | undefined])[]]>([
    [
      'a task has two owners',
      [
        [place('a'), placed],
        [place('b'), replaced],
      ],
    ],
    [
      'an epoch is given twice',
      [
        [place('a'), placed],
        [declined, { ...placed, phase: 'declined' }],
        [place('b'), { ...replaced, epoch: 1 }],
      ],
    ],
    [
      'the result of a replaced owner is accepted',
      [
        [place('a'), placed],
        [declined, { ...placed, phase: 'declined' }],
        [place('b'), replaced],
        [ended('a', 1), { ...replaced, phase: 'ended', end: 'result' }],
      ],
    ],
    [
      'a result under another epoch is accepted',
      [
        [place('a'), placed],
        [ended('a', 2), { ...placed, phase: 'ended', end: 'result' }],
      ],
    ],
    [
      'a task is given away after its end',
      [
        [place('a'), placed],
        [ended('a', 1), { ...placed, phase: 'ended', end: 'result' }],
        [place('b'), replaced],
      ],
    ],
    [
      'a result after the lease ran out counts as on time',
      [
        [place('a'), placed],
        [{ type: 'expire', attemptId: 'a' }, undefined],
        [ended('a', 1), { ...placed, phase: 'ended', end: 'result', isLate: true }],
      ],
    ],
    [
      'what was answered is forgotten',
      [
        [place('a'), placed],
        [{ type: 'read' }, none],
      ],
    ],
  ])('%s', (_what, steps) => {
    expect(checkHistory(ownershipModel, inOrder(steps)).verdict).toBe('violated')
  })

  test.each<readonly [string, readonly (readonly [AppendInput, Tail | undefined])[]]>([
    [
      'a number is given twice',
      [
        [
          { type: 'append', id: 'a', lines: 1 },
          { count: 1, last: 'a' },
        ],
        [
          { type: 'append', id: 'b', lines: 1 },
          { count: 1, last: 'b' },
        ],
      ],
    ],
    [
      'a number is left out',
      [
        [
          { type: 'append', id: 'a', lines: 1 },
          { count: 1, last: 'a' },
        ],
        [
          { type: 'append', id: 'b', lines: 1 },
          { count: 3, last: 'b' },
        ],
      ],
    ],
    [
      'a line that was acknowledged is gone',
      [
        [
          { type: 'append', id: 'a', lines: 2 },
          { count: 2, last: 'a' },
        ],
        [{ type: 'tail' }, { count: 0, last: '' }],
      ],
    ],
    [
      'an append of unknown outcome has half of its effect',
      [
        [{ type: 'append', id: 'a', lines: 2 }, undefined],
        [{ type: 'tail' }, { count: 1, last: 'a' }],
      ],
    ],
  ])('%s', (_what, steps) => {
    expect(checkHistory(appendModel, inOrder(steps)).verdict).toBe('violated')
  })

  test('an append of unknown outcome may have happened, or not', () => {
    const steps = (count: number, last: string) =>
      inOrder<AppendInput, Tail>([
        [{ type: 'append', id: 'a', lines: 2 }, undefined],
        [{ type: 'tail' }, { count, last }],
      ])

    expect(checkHistory(appendModel, steps(2, 'a')).verdict).toBe('linearizable')
    expect(checkHistory(appendModel, steps(0, '')).verdict).toBe('linearizable')
  })
})

test('the overlap is the number of other operations of the key under way at the same time', () => {
  const spans = [
    [1, 4],
    [2, 6],
    [3, 5],
    [7, 8],
  ] as const
  const history = spans.map(([call, end]) => appended({ call, return: end }, 1))

  expect(meanOverlap(history)).toBe(1.5)
})
