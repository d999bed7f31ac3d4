import type { Stream } from '@libp2p/interface'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NfltrError } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import type { AccountAnswer } from '../../src/core/node-account.ts'
import { FrameStream } from '../../src/mesh/frame-stream.ts'
import type { MeshHost } from '../../src/mesh/peers.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { PeerFacts } from '../../src/ports/peers.ts'
import { type AccountMessage, accountMessageMaxBytes, encodeAccount } from '../../src/wire/account-codec.ts'
import { greetByHand } from './by-hand.ts'
import { HeldClock } from './held-clock.ts'
import { addressOf, Bench, memberOf, soon, streamClosed, TestMesh } from './support.ts'

const protocol = '/nfltr/account/1.0.0'
const attempt = { agentId: 'agt_1', taskId: 'tsk_1', attemptId: 'att_1', epoch: 1, isOpen: false }

let bench: Bench
let mesh: TestMesh
beforeEach(async () => {
  bench = new Bench()
  mesh = await TestMesh.create()
})
afterEach(() => bench[Symbol.asyncDispose]())

describe('a node', () => {
  let node: MeshHost
  beforeEach(async () => {
    node = await bench.member(mesh, 'node', { name: 'vm1', roles: ['node'] })
  })

  test('tells a hub that asks, and knows which hub that is without its saying so', async () => {
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(node), soon())
    const asked: (readonly [PeerFacts, string | undefined])[] = []
    const page: AccountAnswer = {
      attempts: [attempt, { ...attempt, attemptId: 'att_2', isOpen: true, textHash: 'ab', receiptId: 'rcp_1' }],
      isLast: true,
    }
    node.serveAccounts(async (peer, after) => {
      asked.push([peer, after])
      return page
    })

    expect(await hub.askAccount(node.self.peerId, {})).toMatchObject(page)
    expect(await hub.askAccount(node.self.peerId, { after: 'att_0' })).toMatchObject(page)

    expect(asked.map(([peer, after]) => [peer.hubId, peer.machinePeerId, after])).toEqual([
      ['hub_test', hub.self.machinePeerId, undefined],
      ['hub_test', hub.self.machinePeerId, 'att_0'],
    ])
  })

  test('says why it does not tell', async () => {
    const hub = await bench.member(mesh, 'hub')
    await hub.connect(addressOf(node), soon())
    node.serveAccounts(() => Promise.reject(new NfltrError('store_damaged', `x${'é'.repeat(2_000)}`)))

    await expect(hub.askAccount(node.self.peerId, {})).rejects.toMatchObject({
      code: 'store_damaged',
      message: expect.stringMatching(/^vm1 does not tell what it has: xé+$/),
    })
    expect(hub.refusals()).toEqual({})
  })

  test.each(['node', 'issuer', 'cli'] as const)('tells a %s nothing, and counts it', async (kind) => {
    node.serveAccounts(() => Promise.reject(new Error('nobody may ask')))
    const { connection } = await greetByHand(bench, node, await memberOf(mesh, kind))

    const stream = await connection.newStream(protocol)
    new FrameStream(stream, { clock: systemClock(), frameMaxBytes: 100 })
      .send(encodeAccount({ type: 'ask' }))
      .catch(() => {})
    await streamClosed(stream)

    expect(node.refusals()).toEqual({ wrong_role: 1 })
  })

  test.each([
    ['no question', encodeAccount({ type: 'page', attempts: [], isLast: true }), 'protocol_violation'],
    ['no message', new Uint8Array([0xff, 0xff]), 'invalid_frame'],
  ])('ends the stream of a hub that sends %s, and counts it', async (_, bytes, code) => {
    node.serveAccounts(() => Promise.reject(new Error('nothing was asked')))
    const { connection } = await greetByHand(bench, node, await memberOf(mesh, 'hub'))

    const stream = await connection.newStream(protocol)
    await new FrameStream(stream, { clock: systemClock(), frameMaxBytes: 100 }).send(bytes)
    await streamClosed(stream)

    expect(node.refusals()).toEqual({ [code]: 1 })
    expect(node.connected()).toHaveLength(1)
  })
})

describe('a hub', () => {
  let clock: HeldClock
  let hub: MeshHost
  beforeEach(async () => {
    clock = new HeldClock(limits.accountAnswerMs)
    hub = await bench.member(mesh, 'hub', { more: { clock } })
  })

  /** A node that answers as the test says, once it is asked. */
  async function playedNode(answer?: (stream: Stream, frames: FrameStream) => Promise<unknown>): Promise<string> {
    const member = await memberOf(mesh, 'node', { name: 'vm1', roles: ['node'] })
    const { host } = await greetByHand(bench, hub, member)
    if (answer !== undefined) {
      await host.handle(protocol, async (stream) => {
        const frames = new FrameStream(stream, { clock: systemClock(), frameMaxBytes: accountMessageMaxBytes * 2 })
        await frames.read()
        await answer(stream, frames).catch(() => undefined)
      })
    }
    return host.peerId.toString()
  }
  const says = (message: AccountMessage) => playedNode((_, frames) => frames.send(encodeAccount(message)))
  const page = (...ids: string[]): AccountMessage => ({
    type: 'page',
    attempts: ids.map((attemptId) => ({ ...attempt, attemptId })),
    isLast: false,
  })

  test('learns at once from a node of an earlier version that it does not tell', async () => {
    const peerId = await playedNode()

    await expect(hub.askAccount(peerId, {})).rejects.toMatchObject({
      code: 'unsupported',
      message: 'vm1 runs version 0.1.0, which does not tell what it has on record.',
    })
    expect(hub.connected()).toHaveLength(1)
  })

  test('cannot ask who is not there, or is no node', async () => {
    const issuer = await bench.member(mesh, 'issuer')
    await hub.connect(addressOf(issuer), soon())

    await expect(hub.askAccount('12D3nobody', {})).rejects.toMatchObject({ code: 'link_down' })
    await expect(hub.askAccount(issuer.self.peerId, {})).rejects.toMatchObject({ code: 'wrong_role' })
  })

  test('takes no page that goes back, stands still, or has nothing on it and goes on', async () => {
    for (const answer of [page('att_2', 'att_1'), page('att_5', 'att_5'), page('att_1'), page()]) {
      const peerId = await says(answer)
      await expect(hub.askAccount(peerId, { after: 'att_1' })).rejects.toMatchObject({ code: 'protocol_violation' })
    }
    expect(hub.refusals()).toEqual({ protocol_violation: 4 })
  })

  test('takes no answer that is a question, no bytes that are no message, and no message over its bound', async () => {
    const question = await says({ type: 'ask' })
    const garbage = await playedNode((_, frames) => frames.send(new Uint8Array([0xff, 0xff, 0x01])))
    const flood = await playedNode((_, frames) => frames.send(new Uint8Array(accountMessageMaxBytes + 1)))

    await expect(hub.askAccount(question, {})).rejects.toMatchObject({ code: 'protocol_violation' })
    await expect(hub.askAccount(garbage, {})).rejects.toMatchObject({ code: 'invalid_frame' })
    await expect(hub.askAccount(flood, {})).rejects.toMatchObject({ code: 'frame_too_large' })
    expect(hub.refusals()).toEqual({ frame_too_large: 1, invalid_frame: 1, protocol_violation: 1 })
  })

  test('gives a node up that says nothing, and one that goes away', async () => {
    const silent = await playedNode(() => new Promise(() => undefined))
    const gone = await playedNode(async (stream) => stream.abort(new Error('gone')))

    const asking = hub.askAccount(silent, {})
    const failure = expect(asking).rejects.toMatchObject({ code: 'timed_out' })
    await clock.holds(1)
    clock.letGo()
    await failure
    await expect(hub.askAccount(gone, {})).rejects.toMatchObject({ code: 'link_down' })
    expect(clock.delaysMs).toEqual([])
  })
})
