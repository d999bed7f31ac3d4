import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Program } from './simulated-keepers.ts'
import { claim, ref, World } from './world.ts'

/** Says much, asks, waits for a message or a stop, says more and ends. */
function talker(): Program {
  return {
    started: (io) => io.line(`session ${io.launch.args[0]}`),
    input: (io, line) => {
      const [word, id = ''] = line.split(' ')
      if (word === 'brief') {
        for (let index = 0; index < 5; index += 1) io.line(`text line ${index}`)
        io.line('ask q1')
      }
      if (word === 'answer') io.line('text answered')
      if (word === 'steer') {
        io.line(`took ${id}`)
        io.line('text after the message')
        io.line('result done')
      }
      if (word === 'interrupt') io.exit(130)
    },
    inputClosed: (io) => io.exit(0),
  }
}

/** As the talker, but it does not listen to an interrupt. */
function deaf(): Program {
  const program = talker()
  return {
    ...program,
    input: (io, line) => {
      if (line !== 'interrupt') program.input?.(io, line)
    },
  }
}

interface Plan {
  /** Batches that the disk had although nobody was told. */
  readonly keepUnsynced: number
  readonly stops: boolean
  readonly program: () => Program
}

interface Killed {
  readonly world: World
  readonly point: string | undefined
}

/** Runs one turn, kills the node at its `at`-th boundary, starts it again, and lets everything come to rest. */
async function runKilledAt(at: number, options: Plan): Promise<Killed> {
  const world = await World.open({ program: options.program })
  let count = 0
  let point: string | undefined
  world.onBoundary = (name) => {
    count += 1
    if (count !== at) return
    point = name
    world.kill({ keepUnsynced: options.keepUnsynced })
  }
  const revive = async (): Promise<void> => {
    if (world.node !== undefined || point === undefined) return
    await world.startNode()
    await world.connect()
  }

  await world.hub.send(claim())
  await world.run(500)
  await revive()
  await world.run(500)
  if (options.stops) await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() })
  else await world.hub.send({ type: 'steer', commandId: 'steer-1', ref: ref(), messageId: 'm1', text: 'go' })
  await world.run(500)
  await revive()
  await world.run(15_000)
  await revive()
  await world.run(15_000)
  return { world, point }
}

function problems({ world }: Killed, options: Plan): readonly string[] {
  const { hub, machine } = world
  const found: string[] = []
  const ended = hub.of('ended')
  const expected = options.stops ? 'stopped' : 'completed'
  if (ended.length !== 1) found.push(`${ended.length} ends`)
  if (ended[0]?.result.outcome !== expected) found.push(`outcome ${JSON.stringify(ended[0]?.result)}`)
  if (machine.launches.length !== 1) found.push(`${machine.launches.length} launches`)
  if (hub.of('receipt').length !== 1) found.push(`${hub.of('receipt').length} receipts`)
  if (hub.of('claimed').length !== 1) found.push(`${hub.of('claimed').length} claims`)
  if (hub.of('started').length !== 1) found.push(`${hub.of('started').length} starts`)
  const seqs = hub.seqs()
  if (seqs.some((seq, index) => seq !== index + 1)) found.push(`log ${seqs.join()}`)
  const texts = hub.of('task_events').flatMap(({ events }) => events.flatMap((event) => event.text ?? []))
  const expectedTexts = [0, 1, 2, 3, 4].map((index) => `line ${index}`).concat('answered')
  if (!options.stops) expectedTexts.push('after the message')
  if (texts.join() !== expectedTexts.join()) found.push(`texts ${texts.join()}`)
  const states = hub
    .of('task_events')
    .flatMap(({ events }) => events.filter(({ type }) => type === 'message' || type === 'state'))
  if (states.length !== (options.stops ? 1 : 2)) found.push(`state lines ${JSON.stringify(states)}`)
  if (!options.stops && ended[0]?.result.messages[0]?.state !== 'taken') found.push('message not taken')
  if (options.stops && ended[0]?.result.stopCommandId !== 'stop-1') found.push('stop not named')
  return found
}

/** Every boundary of one run, in order, until a run comes through without being killed. */
async function sweepBoundaries(options: Plan): Promise<readonly string[]> {
  const found: string[] = []
  for (let at = 1; ; at += 1) {
    const killed = await runKilledAt(at, options)
    found.push(...problems(killed, options).map((problem) => `at ${at} (${killed.point}): ${problem}`))
    if (killed.point === undefined) {
      expect(at).toBeGreaterThan(30)
      return found
    }
  }
}

describe('a node killed at any point', () => {
  test.each([0, 1])(
    'still gives one end, every line once and one receipt, with %i batches that reached the disk unseen',
    async (keepUnsynced) => {
      expect(await sweepBoundaries({ keepUnsynced, stops: false, program: talker })).toEqual([])
    },
    120_000,
  )

  test.each([
    ['that listens', talker],
    ['that does not', deaf],
  ])(
    'stops a program %s once',
    async (_, program) => {
      expect(await sweepBoundaries({ keepUnsynced: 0, stops: true, program })).toEqual([])
    },
    120_000,
  )
})

describe('a node killed again and again', () => {
  test('loses nothing and repeats nothing', async () => {
    const plan = fc.record({
      kills: fc.array(
        fc.record({ after: fc.integer({ min: 1, max: 25 }), keepUnsynced: fc.integer({ min: 0, max: 2 }) }),
        {
          minLength: 1,
          maxLength: 6,
        },
      ),
      stops: fc.boolean(),
      isDeaf: fc.boolean(),
    })

    await fc.assert(
      fc.asyncProperty(plan, async ({ kills, stops, isDeaf }) => {
        const options = { keepUnsynced: 0, stops, program: isDeaf ? deaf : talker }
        const world = await runKilledOften(kills, options)
        expect(problems({ world, point: undefined }, options)).toEqual([])
      }),
      { numRuns: 60 },
    )
  }, 120_000)
})

/** Runs one turn through a series of kills, each so many boundaries after the start that followed the one before. */
async function runKilledOften(
  kills: readonly { readonly after: number; readonly keepUnsynced: number }[],
  options: Plan,
): Promise<World> {
  const world = await World.open({ program: options.program })
  const left = [...kills]
  let count = 0
  world.onBoundary = () => {
    count += 1
    const next = left[0]
    if (next === undefined || count < next.after) return
    left.shift()
    count = 0
    world.kill(next)
  }
  const rest = async (): Promise<void> => {
    for (let tries = 0; tries <= kills.length; tries += 1) {
      await world.run(500)
      if (world.node !== undefined) continue
      await world.startNode()
      await world.connect()
    }
  }

  await world.hub.send(claim())
  await rest()
  if (options.stops) await world.hub.send({ type: 'stop', commandId: 'stop-1', ref: ref() })
  else await world.hub.send({ type: 'steer', commandId: 'steer-1', ref: ref(), messageId: 'm1', text: 'go' })
  for (let index = 0; index <= kills.length; index += 1) {
    await world.run(11_000)
    await rest()
  }
  return world
}
