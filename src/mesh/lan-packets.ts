import { CODE_IP4, CODE_P2P, CODE_TCP, CODE_WS, type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { type Answer, decode, encode } from 'dns-packet'
import { limits } from '../core/limits.ts'

/**
 * What members say on the multicast group, in the form of libp2p's multicast DNS: a question for the service, and an answer
 * with the PeerId and the ports at the address that the packet is sent from. No name, no mesh, no other address.
 */
export const lanService = '_nfltr._udp.local'

export type LanMessage =
  | { readonly type: 'question' }
  | { readonly type: 'answer'; readonly peerId: string; readonly addresses: readonly string[] }

/** How long others may remember an answer, in seconds; ours forget sooner. */
const answerTtlSeconds = 120

/** One message fits one packet of any network; longer ones are not ours. */
const packetMaxBytes = 1_400

const prefix = 'dnsaddr='

export function encodeQuestion(): Uint8Array {
  return encode({ type: 'query', id: 0, questions: [{ name: lanService, type: 'PTR' }] })
}

/** @param addresses - without PeerId, all of them at the address that the packet will be sent from */
export function encodeAnswer(peerId: string, addresses: readonly string[]): Uint8Array {
  const instance = `${peerId}.${lanService}`
  const answers: Answer[] = [
    { name: lanService, type: 'PTR', class: 'IN', ttl: answerTtlSeconds, data: instance },
    ...addresses.map(
      (address): Answer => ({
        name: instance,
        type: 'TXT',
        class: 'IN',
        ttl: answerTtlSeconds,
        data: `${prefix}${address}/p2p/${peerId}`,
      }),
    ),
  ]
  return encode({ type: 'response', id: 0, flags: authoritative, answers })
}

const authoritative = 1 << 10

/** Whether a packet can be about the service at all; most packets of the group are not, and cost this look alone. */
export function mayBeOurs(bytes: Uint8Array): boolean {
  return bytes.length <= packetMaxBytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes('_nfltr')
}

/**
 * Reads a packet. Of an answer only those addresses are taken that are at the address the packet came from: an announcer
 * can send nobody anywhere but to itself.
 *
 * @returns `undefined` for whatever is not a message of ours
 */
export function decodeLan(bytes: Uint8Array, from: string): LanMessage | undefined {
  try {
    const packet = decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
    if (packet.type === 'query') {
      return packet.questions?.some(({ name }) => name === lanService) === true ? { type: 'question' } : undefined
    }
    return answerOf([...(packet.answers ?? []), ...(packet.additionals ?? [])], from)
  } catch {
    return undefined
  }
}

function answerOf(records: readonly Answer[], from: string): LanMessage | undefined {
  if (!records.some((record) => record.type === 'PTR' && record.name === lanService)) return undefined
  const said = records
    .flatMap((record) => (record.type === 'TXT' ? textsOf(record.data) : []))
    .filter((text) => text.startsWith(prefix))
    .slice(0, limits.addressesMax)
    .map((text) => multiaddr(text.slice(prefix.length)))
  const peerId = said[0]?.getComponents().at(-1)?.value
  if (peerId === undefined) return undefined
  const addresses = said.flatMap((address) => ownAddress(address, { peerId, from }) ?? [])
  return addresses.length === 0 ? undefined : { type: 'answer', peerId, addresses }
}

function ownAddress(address: Multiaddr, of: { readonly peerId: string; readonly from: string }): string | undefined {
  const [host, port, ...rest] = address.getComponents()
  const peer = rest.pop()
  const isFit =
    host?.code === CODE_IP4 &&
    host.value === of.from &&
    port?.code === CODE_TCP &&
    Number(port.value) > 0 &&
    peer?.code === CODE_P2P &&
    peer.value === of.peerId &&
    (rest.length === 0 || (rest.length === 1 && rest[0]?.code === CODE_WS))
  return isFit ? `/ip4/${of.from}/tcp/${port.value}${rest.length === 1 ? '/ws' : ''}` : undefined
}

function textsOf(data: unknown): readonly string[] {
  if (Array.isArray(data)) return data.flatMap(textsOf)
  if (typeof data === 'string') return [data]
  return data instanceof Uint8Array ? [Buffer.from(data).toString('utf8')] : []
}
