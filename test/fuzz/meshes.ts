import process from 'node:process'
import { meshIssuer } from '../../src/identity/issuer-key.ts'
import { FrameStream } from '../../src/mesh/frame-stream.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { Session } from '../../src/runtime/session.ts'
import { encodeAccount } from '../../src/wire/account-codec.ts'
import { encodeHandshake } from '../../src/wire/handshake-codec.ts'
import { encodeRoster } from '../../src/wire/roster-codec.ts'
import { encodeFrame } from '../../src/wire/session-codec.ts'
import { greetByHand, megabyte } from '../mesh/by-hand.ts'
import { addressOf, Bench, connectionTo, memberOf, soon, streamClosed, TestMesh } from '../mesh/support.ts'
import { account, frame } from '../wire/arbitraries.ts'
import { handshake, roster } from '../wire/handshake-arbitraries.ts'
import { pool } from './decoders.ts'
import { mutate } from './mutate.ts'
import { Crash, type Target } from './target.ts'

/** A session that is not opened holds its stream so long, in milliseconds. */
const openingMs = 500

const protocols = {
  hello: '/nfltr/hello/1.0.0',
  join: '/nfltr/join/1.0.0',
  roster: '/nfltr/roster/1.0.0',
  session: '/nfltr/session/1.0.0',
  account: '/nfltr/account/1.0.0',
} as const

/** An issuer and a node on loopback, whose connections come from strangers and from members that say what they must not. */
const mesh: Target = {
  kind: 'live mesh',
  share: 0.3,
  open: async (seed) => {
    const valid = {
      hello: pool(seed, handshake, encodeHandshake),
      join: pool(seed, handshake, encodeHandshake),
      roster: pool(seed, roster, encodeRoster),
      session: pool(seed, frame, encodeFrame),
      account: pool(seed, account, encodeAccount),
    }
    const bench = new Bench()
    const test = await TestMesh.create()
    const home = await bench.home()
    const more = { issuer: { book: home.issuer, signer: meshIssuer(test.key) } }
    const issuer = await bench.member(test, 'issuer', { home, more })
    const node = await bench.member(test, 'node')
    // As a node does: whoever does not open a session in time is cut off.
    node.serveSessions((link) => {
      const end = (error?: Error): void => link.close(error)
      Session.readOpen(link, { signal: AbortSignal.timeout(openingMs) }).then(() => end(), end)
    })
    node.serveAccounts(async () => ({ attempts: [], isLast: true }))
    return {
      try: async (random) => {
        await using guests = new Bench()
        const isMember = random.chance(0.6)
        const protocol = isMember
          ? random.pick(['roster', 'session', 'account', 'hello'] as const)
          : random.pick(['hello', 'join'] as const)
        const host = isMember ? node : issuer
        const inputs = Array.from({ length: random.int(1, 3) }, () => mutate(random, valid[protocol]))
        const before = refusalsOf(host)
        const connection = isMember
          ? (await greetByHand(guests, host, await memberOf(test, 'hub'))).connection
          : await connectionTo(await guests.stranger(), host)
        const stream = await connection.newStream(protocols[protocol], soon())
        const frames = new FrameStream(stream, { clock: systemClock(), frameMaxBytes: 2 * megabyte })
        for (const input of inputs) await frames.send(input).catch(() => undefined)
        await stream.close().catch(() => undefined)
        if (!isMember) await streamClosed(stream)
        const input = Buffer.concat(inputs)
        if (!isServing(host)) throw new Crash(input, 'the process serves nobody any more')
        const after = refusalsOf(host)
        const [code] = Object.keys(after).filter((name) => after[name] !== before[name])
        return code ?? 'closed'
      },
      close: async () => {
        // Whoever is not refused still gets in.
        const hub = await bench.member(test, 'hub')
        await hub.connect(addressOf(node), soon())
        await bench[Symbol.asyncDispose]()
      },
    }
  },
}

export const meshes: readonly Target[] = [mesh]

function refusalsOf(host: MeshHost): Readonly<Record<string, number>> {
  return { ...host.refusals() }
}

function isServing(host: MeshHost): boolean {
  return host.listenAddresses().length > 0 && process.exitCode === undefined
}
