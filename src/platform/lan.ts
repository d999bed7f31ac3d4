import { createSocket, type Socket } from 'node:dgram'
import { networkInterfaces } from 'node:os'
import type { Lan, LanChannel, LanInterface, LanPacket } from '../ports/lan.ts'

/** Address and port of multicast DNS (RFC 6762). */
const group = '224.0.0.251'
const port = 5353

/** As RFC 6762 wants it, so that a receiver can tell that no router was between. */
const hops = 255

interface Network extends LanInterface {
  readonly net: number
  readonly mask: number
}

/** The multicast group of this machine's networks, on a socket that other programs for multicast DNS share. IPv4 alone. */
export function systemLan(): Lan {
  return { open: (receive) => openChannel(receive) }
}

async function openChannel(receive: (packet: LanPacket) => void): Promise<LanChannel> {
  const socket = createSocket({ type: 'udp4', reuseAddr: true })
  await bound(socket)
  // The processes that use this live for their own reasons.
  socket.unref()
  socket.setMulticastTTL(hops)
  socket.setMulticastLoopback(true)
  const joined = new Set<string>()
  let networks = readNetworks()
  // The interface is set on the socket and not on the packet: one packet at a time.
  let tail: Promise<unknown> = Promise.resolve()
  let isClosed = false
  socket.on('message', (bytes, { address }) => {
    if (!isClosed && isNear(address, networks)) receive({ bytes, from: address })
  })
  return {
    interfaces: () => {
      if (isClosed) return []
      networks = readNetworks()
      for (const address of joined) if (!networks.some((network) => network.address === address)) joined.delete(address)
      for (const { address } of networks) if (!joined.has(address) && join(socket, address)) joined.add(address)
      return networks.filter(({ address }) => joined.has(address))
    },
    send: (bytes, on) => {
      const sent = tail.then(() => (isClosed ? undefined : sendOn(socket, { bytes, address: on.address })))
      tail = sent.catch(() => undefined)
      return sent
    },
    hasRoute,
    close: async () => {
      if (isClosed) return
      isClosed = true
      await tail
      await new Promise<void>((resolve) => socket.close(resolve))
    },
  }
}

function bound(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('error', (error) => {
      socket.close()
      reject(error)
    })
    socket.bind(port, () => {
      socket.removeAllListeners('error')
      // An interface that went away while a packet was on its way to it. What is sent answers for itself.
      socket.on('error', () => undefined)
      resolve()
    })
  })
}

function join(socket: Socket, address: string): boolean {
  try {
    socket.addMembership(group, address)
    return true
  } catch (error) {
    // Joined before, under an address that the interface also had.
    return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
  }
}

async function sendOn(socket: Socket, of: { readonly bytes: Uint8Array; readonly address: string }): Promise<void> {
  socket.setMulticastInterface(of.address)
  await new Promise<void>((resolve, reject) => {
    socket.send(of.bytes, port, group, (error) => {
      if (error === null) resolve()
      else reject(error)
    })
  })
}

/** Asks the system where it would send to the group; no packet goes out. */
function hasRoute(): Promise<boolean> {
  const socket = createSocket('udp4')
  return new Promise((resolve) => {
    const end = (isThere: boolean): void => {
      socket.close()
      resolve(isThere)
    }
    socket.once('error', () => end(false))
    socket.once('connect', () => end(true))
    socket.connect(port, group)
  })
}

function readNetworks(): readonly Network[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? [])
      .filter(({ family }) => family === 'IPv4')
      .map(({ address, netmask, internal }) => {
        const mask = numberOf(netmask)
        return { name, address, isLoopback: internal, mask, net: numberOf(address) & mask }
      }),
  )
}

/** Whether an address is on a network of this machine: what was routed here is nobody's neighbour. */
function isNear(address: string, networks: readonly Network[]): boolean {
  const number = numberOf(address)
  return networks.some(({ net, mask }) => (number & mask) === net)
}

function numberOf(address: string): number {
  return address.split('.').reduce((number, part) => (number << 8) | Number(part), 0)
}
