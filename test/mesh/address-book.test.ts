import { readdir, writeFile } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { encodeRecord } from '../../src/core/record-json.ts'
import { signAddressRecord } from '../../src/identity/envelopes.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import { AddressBook } from '../../src/mesh/address-book.ts'
import { withoutPeerId } from '../../src/mesh/addresses.ts'
import { addressDialTimeoutMs } from '../../src/mesh/dial.ts'
import { LanHints } from '../../src/mesh/lan-hints.ts'
import type { Home } from '../../src/ports/home.ts'
import { ManualClock } from '../contracts/manual-clock.ts'
import { HeldClock } from './held-clock.ts'
import { addressOf, Bench, memberOf, peerUp, TestMesh } from './support.ts'

const peer = '12D3KooWJbJFaZ1dwpuu9tQY3ELCKCpWMJc1dSRVbcMwhiLiFq7q'

describe('the address book', () => {
  let bench: Bench
  let home: Home

  beforeEach(async () => {
    bench = new Bench()
    home = await bench.home()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('tries private addresses first, of those what answered, then what was heard, and TCP before WebSockets', async () => {
    const { book, hints } = await newBook()
    book.noteAnswered(peer, multiaddr('/ip4/203.0.113.7/tcp/1'))
    book.noteAnswered(peer, multiaddr('/ip4/10.0.0.1/tcp/1/ws'))
    book.noteAnswered(peer, multiaddr('/ip4/10.0.0.2/tcp/1'))
    hints.hear(peer, { host: '10.0.0.3', addresses: ['/ip4/10.0.0.3/tcp/1'], nowMs: 1_000 })

    expect(texts(book, ['/ip4/10.0.0.4/tcp/1', '/ip4/10.0.0.2/tcp/1', '/dns4/example.org/tcp/1'])).toEqual([
      '/ip4/10.0.0.2/tcp/1',
      '/ip4/10.0.0.3/tcp/1',
      '/ip4/10.0.0.4/tcp/1',
      '/ip4/10.0.0.1/tcp/1/ws',
      '/ip4/203.0.113.7/tcp/1',
      '/dns4/example.org/tcp/1',
    ])
  })

  test('is on disk, and read at the next start', async () => {
    const { book } = await newBook()
    book.noteAnswered(peer, multiaddr(`/ip4/10.0.0.1/tcp/1/p2p/${peer}`))
    await book.close()

    expect(texts((await newBook()).book, [])).toEqual(['/ip4/10.0.0.1/tcp/1'])
  })

  test('is written once while the same address goes on answering', async () => {
    const { book } = await newBook()
    book.noteAnswered(peer, multiaddr('/ip4/10.0.0.1/tcp/1'))
    await book.close()
    const [first] = await home.mesh.answered()

    for (let time = 0; time < 100; time += 1) book.noteAnswered(peer, multiaddr('/ip4/10.0.0.1/tcp/1'))
    await book.close()

    expect(await home.mesh.answered()).toEqual([first])
  })

  test('remembers four addresses of a peer, tries eight in all, and never what is no address', async () => {
    const { book } = await newBook()
    for (let port = 1; port <= 9; port += 1) book.noteAnswered(peer, multiaddr(`/ip4/10.0.0.1/tcp/${port}`))
    const told = Array.from({ length: 20 }, (_, port) => `/ip4/10.0.0.2/tcp/${port + 1}`)

    expect(texts(book, ['', '/ip4/1.1.1.1/udp/1', 'x', ...told])).toEqual([
      ...[9, 8, 7, 6].map((port) => `/ip4/10.0.0.1/tcp/${port}`),
      ...told.slice(0, 4),
    ])
  })

  test('with a file that does not read loses that file', async () => {
    const { book } = await newBook()
    book.noteAnswered(peer, multiaddr('/ip4/10.0.0.1/tcp/1'))
    await book.close()
    const folder = join(home.paths.mesh, 'answered')
    for (const name of await readdir(folder)) await writeFile(join(folder, name), '{"peerId":')

    expect(texts((await newBook()).book, [])).toEqual([])
  })

  test('remembers a thousand peers, those reached last', async () => {
    const folder = join(home.paths.mesh, 'answered')
    await home.mesh.saveAnswered({ peerId: 'peer-0', addresses: [{ address: '/ip4/10.0.0.1/tcp/1', atMs: 0 }] })
    for (let number = 1; number < 1_030; number += 1) {
      const record = { peerId: `peer-${number}`, addresses: [{ address: '/ip4/10.0.0.1/tcp/1', atMs: number }] }
      // As it is saved, without the disk being waited for a thousand times.
      await writeFile(join(folder, record.peerId), encodeRecord(record), { mode: 0o600 })
    }

    expect(await home.mesh.answered()).toHaveLength(1_024)
    expect((await home.mesh.answered())[0]?.peerId).toBe('peer-1029')
    expect(await readdir(folder)).toHaveLength(1_024)
  })

  async function newBook(): Promise<{ readonly book: AddressBook; readonly hints: LanHints }> {
    const hints = new LanHints()
    const book = new AddressBook({ files: home.mesh, clock: new ManualClock(), hints })
    // What it still writes has to be done before its folder is removed.
    bench.defer(() => book.close())
    await book.load()
    return { book, hints }
  }

  function texts(book: AddressBook, told: readonly string[]): readonly string[] {
    return book.candidates(peer, told).map(withoutPeerId)
  }
})

describe('addresses that went stale', () => {
  let bench: Bench
  let mesh: TestMesh

  beforeEach(async () => {
    bench = new Bench()
    mesh = await TestMesh.create()
  })

  afterEach(() => bench[Symbol.asyncDispose]())

  test('cost 1.5 s each and no more, also where somebody accepts and says nothing', async () => {
    const node = await bench.member(mesh, 'node')
    const home = await bench.home()
    const silent = await silentAddress(bench)
    const answered = [{ address: silent.address, atMs: Date.now() }]
    await home.mesh.saveAnswered({ peerId: node.self.peerId, addresses: answered })
    const hub = await bench.start({ ...(await memberOf(mesh, 'hub')), home })

    hub.wantAddress(addressOf(node))
    await peerUp(hub)
    expect(silent.calls()).toBe(0)
    await expect.poll(() => hub.members().length).toBe(2)
    await hub.close()

    await home.mesh.saveAnswered({ peerId: node.self.peerId, addresses: answered })
    const clock = new HeldClock(addressDialTimeoutMs)
    const again = await bench.start({ ...(await memberOf(mesh, 'hub')), home, clock })
    again.want(node.self.machinePeerId)
    await silent.called
    expect(again.connected()).toEqual([])
    clock.letGo()

    expect(await peerUp(again)).toMatchObject({ peerId: node.self.peerId })
    expect(silent.calls()).toBe(1)
  })

  test('of other processes of the machine cost nothing', async () => {
    const node = await memberOf(mesh, 'node')
    const host = await bench.start({ ...node })
    const home = await bench.home()
    const helper = await bench.start({ ...(await memberOf(mesh, 'hub')), home })
    helper.wantAddress(addressOf(host))
    await peerUp(helper)
    await expect.poll(() => helper.members().length).toBe(2)
    await helper.close()
    // Hubs of the same machine that are gone, at an address that swallows whoever calls.
    const silent = await silentAddress(bench)
    const member = await home.mesh.member(host.self.machinePeerId)
    if (member === undefined) throw new Error('the node is not in the roster')
    const gone = await Promise.all(Array.from({ length: 5 }, () => goneHub(mesh.id, silent.address)))
    await home.mesh.saveMember({ ...member, addresses: [...member.addresses, ...gone] })
    // No bound of an address runs out here: whoever were to wait for one would wait until libp2p's, five times.
    const clock = new HeldClock(addressDialTimeoutMs)
    const cli = await bench.start({ ...(await memberOf(mesh, 'cli')), home, listen: [], clock })

    cli.want(host.self.machinePeerId)

    expect(await peerUp(cli)).toMatchObject({ peerId: host.self.peerId })
  })
})

async function goneHub(
  meshId: string,
  address: string,
): Promise<{ readonly peerId: string; readonly seq: number; readonly envelope: Uint8Array }> {
  const key = await generateKey()
  const record = {
    meshId,
    peerId: peerIdOf(key),
    kind: 'hub',
    addresses: [address],
    relays: [],
    seq: Date.now(),
  } as const
  return { peerId: record.peerId, seq: record.seq, envelope: await signAddressRecord(key, record) }
}

interface Silent {
  readonly address: string
  /** How often somebody connected, and that somebody did. */
  calls(): number
  readonly called: Promise<void>
}

/** An address where somebody accepts and says nothing. */
async function silentAddress(bench: Bench): Promise<Silent> {
  const sockets: Socket[] = []
  const called = Promise.withResolvers<void>()
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    sockets.push(socket)
    called.resolve()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  bench.defer(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('nothing is listened on')
  return { address: `/ip4/127.0.0.1/tcp/${address.port}`, calls: () => sockets.length, called: called.promise }
}
