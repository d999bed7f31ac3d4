import { multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import { LanDiscovery } from '../../src/mesh/lan-discovery.ts'
import { LanHints } from '../../src/mesh/lan-hints.ts'
import { decodeLan, encodeAnswer, encodeQuestion } from '../../src/mesh/lan-packets.ts'
import { ManualClock, settle } from '../contracts/manual-clock.ts'
import { MemoryLan } from '../contracts/memory-lan.ts'

const own = '12D3KooWGZ3rYpEfT3i5LSLYi6YoGRb1jGyWk4tbWvqc1g8NQuZb'
const member = '12D3KooWJbJFaZ1dwpuu9tQY3ELCKCpWMJc1dSRVbcMwhiLiFq7q'
const here = '10.0.0.1'
const there = '10.0.0.2'

test('a thousand questions get one answer a second', async () => {
  const { net, clock } = await discovery()
  net.sent.length = 0

  for (let question = 0; question < 1_000; question += 1) {
    net.tell({ bytes: encodeQuestion(), from: there })
    if (question % 100 === 99) await clock.advance(500)
  }
  await clock.advance(2_000)

  const answers = net.sent.filter(({ bytes, from }) => decodeLan(bytes, from)?.type === 'answer')
  expect(answers.length).toBeGreaterThanOrEqual(4)
  expect(answers.length).toBeLessThanOrEqual(7)
})

test('who misses somebody asks ever more rarely, and anew when its addresses changed', async () => {
  const { net, clock, lan } = await discovery()
  net.sent.length = 0

  for (let second = 0; second < 600; second += 1) {
    lan.ask()
    await clock.advance(1_000)
  }

  expect(questionsOf(net)).toBeGreaterThan(10)
  expect(questionsOf(net)).toBeLessThan(20)
  net.sent.length = 0
  lan.refresh()
  await clock.advance(2_000)
  expect(questionsOf(net)).toBe(2)
})

test('nothing is said or asked while nobody is missing and nobody asks', async () => {
  const { net, clock } = await discovery()
  net.sent.length = 0

  await clock.advance(24 * 3_600_000)

  expect(net.sent).toEqual([])
  expect(clock.pending).toBe(0)
})

test('a flood of announcements is dropped unread, and what comes a second later is heard', async () => {
  const { net, clock, hints } = await discovery()

  for (let port = 1; port <= 10_000; port += 1)
    net.tell({ bytes: encodeAnswer(member, [`/ip4/${there}/tcp/${port}`]), from: there })
  await clock.advance(1_000)
  net.tell({ bytes: encodeAnswer(member, ['/ip4/10.0.0.3/tcp/4701']), from: '10.0.0.3' })

  expect(hints.length).toBeLessThanOrEqual(6)
  expect(hints).toContain('/ip4/10.0.0.3/tcp/4701')
})

test('of one peer four machines are remembered, the newest first, and for ten minutes', () => {
  const hints = new LanHints()
  for (let host = 1; host <= 100; host += 1)
    hints.hear(member, { host: `10.0.0.${host}`, addresses: [`/ip4/10.0.0.${host}/tcp/1`], nowMs: host })

  expect(hints.addressesOf(member, 100)).toEqual([100, 99, 98, 97].map((host) => `/ip4/10.0.0.${host}/tcp/1`))
  expect(hints.addressesOf(member, 11 * 60_000)).toEqual([])
})

test('an address at which another key answered is not believed for half a minute, one where nobody was is at once', () => {
  const hints = new LanHints()
  const said = { host: there, addresses: [`/ip4/${there}/tcp/1`] }
  hints.hear(member, { ...said, nowMs: 0 })

  hints.forget(member, `/ip4/${there}/tcp/1`, { nowMs: 0, isLie: false })
  expect(hints.addressesOf(member, 0)).toEqual([])
  hints.hear(member, { ...said, nowMs: 1 })
  expect(hints.addressesOf(member, 1)).toEqual([`/ip4/${there}/tcp/1`])

  hints.forget(member, `/ip4/${there}/tcp/1`, { nowMs: 2, isLie: true })
  hints.hear(member, { ...said, nowMs: 29_000 })
  expect(hints.addressesOf(member, 29_000)).toEqual([])
  hints.hear(member, { ...said, nowMs: 31_000 })
  expect(hints.addressesOf(member, 31_000)).toEqual([`/ip4/${there}/tcp/1`])
})

test('bytes that are no packet, and packets about other services, are nothing', () => {
  for (const bytes of [
    new Uint8Array(),
    new TextEncoder().encode('_nfltr'),
    Uint8Array.from({ length: 600 }, (_, index) => (index * 7) % 256),
    encodeAnswer('not a peer', [`/ip4/${there}/tcp/1`]).subarray(0, 40),
  ]) {
    expect(decodeLan(bytes, there)).toBeUndefined()
  }
})

function questionsOf(net: MemoryLan): number {
  return net.sent.filter(({ bytes, from }) => decodeLan(bytes, from)?.type === 'question').length
}

/** One that listens on its only interface and has said so. */
async function discovery(): Promise<{
  readonly net: MemoryLan
  readonly clock: ManualClock
  readonly lan: LanDiscovery
  readonly hints: string[]
}> {
  const [net, clock, hints] = [new MemoryLan(), new ManualClock(), [] as string[]]
  const lan: LanDiscovery = new LanDiscovery({
    lan: net.at(here),
    clock,
    random: { next: () => 0.5, bytes: (length) => new Uint8Array(length) },
    ownPeerId: own,
    listening: () => [multiaddr(`/ip4/${here}/tcp/4701`)],
    isKnown: (peerId) => peerId === member,
    onHint: (peerId) => hints.push(...lan.hints.addressesOf(peerId, clock.nowMs()).slice(0, 1)),
  })
  await lan.start()
  await settle()
  await clock.advance(2_000)
  return { net, clock, lan, hints }
}
