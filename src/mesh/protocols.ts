import type { Connection, Stream } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Clock } from '../ports/clock.ts'
import type { AnswerAccount, Link, PeerFacts } from '../ports/peers.ts'
import type { Random } from '../ports/random.ts'
import { accountProtocol, answerAccount } from './account-exchange.ts'
import { FrameStream } from './frame-stream.ts'
import { type GateOptions, serveMembers, serveStrangers } from './gate.ts'
import { helloProtocol } from './hello.ts'
import { answerJoiner, type IssuerRole, joinProtocol } from './join.ts'
import type { MemberLink, MemberLinks } from './member-links.ts'
import type { OwnPlace } from './own-place.ts'
import type { Refusals } from './refusals.ts'
import { rosterProtocol } from './roster-exchange.ts'
import type { RosterSpread } from './roster-spread.ts'
import { objectionToSession, SessionLink, sessionProtocol } from './session-streams.ts'

export interface ProtocolOptions extends GateOptions {
  readonly clock: Clock
  readonly random: Random
  readonly place: OwnPlace
  readonly spread: RosterSpread
  readonly issuer: IssuerRole | undefined
  /** Resolves once somebody takes sessions; until then they wait. */
  readonly acceptSession: Promise<(link: Link) => void>
  /** Likewise for questions about what is on record. */
  readonly answerAccount: Promise<AnswerAccount>
}

/** Registers what this process answers. What is not here is answered by nobody: strangers get hello, and join on an issuer. */
export async function serveProtocols(options: ProtocolOptions): Promise<void> {
  const { greeter, issuer, place, spread } = options
  await serveStrangers(options, helloProtocol, async (stream, connection) => {
    // What came of it is counted by the greeter; a refusal is not a fault of the handler.
    await greeter.answer(connection, stream).catch(() => {})
  })
  await serveMembers(options, rosterProtocol, (stream, link) => spread.answer(link, stream))
  if (place.facts.kind === 'node') {
    await serveMembers(options, sessionProtocol, (stream, link) => serveSession(options, stream, link))
    await serveMembers(options, accountProtocol, (stream, link) => serveAccount(options, stream, link))
  }
  if (issuer !== undefined) {
    await serveStrangers(options, joinProtocol, (stream, connection) =>
      serveJoin(options, { stream, connection, issuer }),
    )
  }
}

/** @throws {NfltrError} `link_down`, `wrong_role` */
export async function openSession(
  peerId: string,
  by: { readonly links: MemberLinks; readonly self: PeerFacts; readonly clock: Clock; readonly refusals: Refusals },
  options: { readonly signal: AbortSignal },
): Promise<Link> {
  const link = linkToNode(peerId, by)
  try {
    const stream = await link.connection.newStream(sessionProtocol, { signal: options.signal })
    return sessionLink(stream, link, by)
  } catch (cause) {
    throw new NfltrError('link_down', `No session with ${link.facts.name} could be opened.`, { cause })
  }
}

/** The line to a node, for a hub. @throws {NfltrError} `link_down`, `wrong_role` */
export function linkToNode(
  peerId: string,
  { links, self }: { readonly links: MemberLinks; readonly self: PeerFacts },
): MemberLink {
  const link = links.required(peerId)
  const objection = objectionToSession(self, link.facts)
  if (objection !== undefined) throw objection
  return link
}

function sessionLink(
  stream: Stream,
  link: MemberLink,
  options: { readonly clock: Clock; readonly refusals: Refusals },
): Link {
  const onViolation = (code: NfltrError['code']): void => options.refusals.add(code)
  const frames = new FrameStream(stream, {
    clock: options.clock,
    frameMaxBytes: limits.sessionFrameMaxBytes,
    onViolation: (error) => onViolation(error.code),
  })
  return new SessionLink(frames, { peer: link.facts, onViolation })
}

async function serveSession(options: ProtocolOptions, stream: Stream, link: MemberLink): Promise<void> {
  const objection = objectionToSession(link.facts, options.place.facts)
  if (objection !== undefined) throw objection
  const accept = await options.acceptSession
  accept(sessionLink(stream, link, options))
}

/** Those that may open sessions may ask, each about itself. */
async function serveAccount(options: ProtocolOptions, stream: Stream, link: MemberLink): Promise<void> {
  const objection = objectionToSession(link.facts, options.place.facts)
  if (objection !== undefined) throw objection
  await answerAccount(stream, { clock: options.clock, link }, await options.answerAccount)
}

async function serveJoin(
  options: ProtocolOptions,
  from: { readonly stream: Stream; readonly connection: Connection; readonly issuer: IssuerRole },
): Promise<void> {
  const { standing, roster, trust, facts } = options.place
  if (standing === undefined || roster === undefined || trust === undefined) {
    throw new NfltrError('no_issuer', 'This process cannot issue: it has no membership.')
  }
  const frames = new FrameStream(from.stream, { clock: options.clock, frameMaxBytes: limits.helloMaxBytes })
  await answerJoiner(frames, {
    role: from.issuer,
    standing,
    roster,
    trust,
    issuerPeerId: facts.peerId,
    joinerPeerId: from.connection.remotePeer.toString(),
    random: options.random,
    wallMs: () => options.place.wallMs(),
    onProven: () => options.quarantine.admissionOf(from.connection).allowIssuing(),
  })
}
