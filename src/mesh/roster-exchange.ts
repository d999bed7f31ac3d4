import { NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import {
  decodeRoster,
  encodeRoster,
  type RosterDigest,
  type RosterMember,
  type RosterMessage,
  rosterMessageMaxBytes,
  rosterPageMembers,
} from '../wire/roster-codec.ts'
import type { FrameStream } from './frame-stream.ts'
import type { Roster, RosterEntry } from './roster.ts'
import type { Trust } from './trust.ts'

export const rosterProtocol = '/nfltr/roster/1.0.0'

export const rosterFrameMaxBytes = rosterMessageMaxBytes

/** How the two sides of an exchange are bound together: the connection's other end, and when this is. */
export interface ExchangeOptions {
  /** The process at the other end, whose own address record counts because hello showed its certificate. */
  readonly peer: { readonly peerId: string; readonly machinePeerId: string }
  readonly onBadRecord: (error: unknown) => void
  /** What the peer says that it has. */
  readonly onDigest: (digest: RosterDigest) => void
}

/** What one side brings into an exchange. */
export interface Directory {
  readonly roster: Roster
  readonly trust: Trust
}

/**
 * Brings two rosters level: both say what they have, each sends the other what it lacks, in pages, the last one marked. What
 * does not prove itself is counted and passed over; the rest is taken. What was revoked, and who may issue, goes before members.
 *
 * @returns whether anything new was learnt
 * @throws {NfltrError} `link_down`, a decoder's refusal, `protocol_violation`
 */
export async function exchangeRoster(frames: FrameStream, own: Directory, options: ExchangeOptions): Promise<boolean> {
  await frames.send(encodeRoster(digestOf(own)))
  const digest = await receive(frames, 'digest')
  options.onDigest(digest)
  const sending = sendMissing(frames, own, digest)
  // Seen here as well as awaited below: a failing reader must not leave it behind unhandled.
  sending.catch(() => {})
  const isNews = await takePages(frames, own, options)
  await sending
  return isNews
}

function digestOf({ roster, trust }: Directory): RosterDigest {
  const entries = countingIn({ roster, trust }).flatMap(({ membership: { body }, records }) => [
    {
      peerId: body.machinePeerId,
      serial: body.serial,
      addressSeq: records.get(body.machinePeerId)?.body.seq ?? 0,
      ...departed(trust.departedSerial(body.machinePeerId)),
    },
    ...[...records.values()]
      .filter((record) => record.body.peerId !== body.machinePeerId)
      .map((record) => ({ peerId: record.body.peerId, serial: body.serial, addressSeq: record.body.seq })),
  ])
  // Machines before further processes would be cut first where the mesh is larger than a digest.
  return { type: 'digest', entries: entries.slice(0, 1_000), revocationVersions: trust.versions() }
}

/** What somebody signed who lets nobody in any more is not had: the peer has what took its place. */
function countingIn({ roster, trust }: Directory): readonly RosterEntry[] {
  return roster.entries().filter(({ membership }) => trust.isIssuer(membership.body.issuerId))
}

function departed(departedSerial: number): { readonly departedSerial?: number } {
  return departedSerial === 0 ? {} : { departedSerial }
}

async function sendMissing(frames: FrameStream, { roster, trust }: Directory, theirs: RosterDigest): Promise<void> {
  const issuerCertificates = [...trust.certificateEnvelopes()]
  const successions = trust.successionEnvelopes()
  // One list a page: each may be as long as a page can be.
  for (const list of trust.listsBeyond(theirs.revocationVersions)) {
    await frames.send(
      encodeRoster({
        type: 'push',
        members: [],
        revocations: [list],
        issuerCertificates,
        departures: [],
        successions,
        isLast: false,
      }),
    )
  }

  // Former owners' come behind the lists that end them, so that nobody believes one for a moment.
  const everyCertificate = trust.everyCertificateEnvelope()
  const known = new Map(theirs.entries.map((entry) => [entry.peerId, entry]))
  const missing = countingIn({ roster, trust }).flatMap((entry) => missingOf(entry, known) ?? [])
  const departures = trust.departuresBeyond((peerId) => known.get(peerId)?.departedSerial ?? 0)
  for (let from = 0; ; from += rosterPageMembers) {
    const members = missing.slice(from, from + rosterPageMembers)
    const isLast = from + rosterPageMembers >= missing.length
    // Behind the members that they are about: nobody keeps the departure of a stranger.
    const last = isLast ? departures : []
    await frames.send(
      encodeRoster({
        type: 'push',
        members,
        revocations: [],
        issuerCertificates: everyCertificate,
        departures: last,
        successions,
        isLast,
      }),
    )
    if (isLast) return
  }
}

function missingOf(
  entry: RosterEntry,
  known: ReadonlyMap<string, { readonly serial: number; readonly addressSeq: number }>,
): RosterMember | undefined {
  const { body, envelope } = entry.membership
  const records = [...entry.records.values()].filter(
    (record) => record.body.seq > (known.get(record.body.peerId)?.addressSeq ?? 0),
  )
  const isKnown = (known.get(body.machinePeerId)?.serial ?? -1) >= body.serial
  if (isKnown && records.length === 0) return undefined
  return { membership: envelope, addressRecords: records.map((record) => record.envelope) }
}

/** Lists of what was revoked in one mesh: of the mesh key and of each further owner. */
const listsMax = 9 + limits.successionsMax

/** As many pages as the largest mesh has, with a page for each list of each issuer. */
const pagesMax = 1_000 / rosterPageMembers + 1 + 2 * listsMax

async function takePages(
  frames: FrameStream,
  { roster, trust }: Directory,
  options: ExchangeOptions,
): Promise<boolean> {
  let isNews = false
  for (let page = 0; page < pagesMax; page += 1) {
    const push = await receive(frames, 'push')
    isNews = (await trust.takeSuccessions(push.successions)) || isNews
    isNews = (await trust.takeCertificates(push.issuerCertificates)) || isNews
    isNews = (await trust.takeLists(push.revocations)) || isNews
    for (const member of push.members) {
      try {
        isNews = (await roster.take(member, { vouched: options.peer.peerId })) || isNews
      } catch (error) {
        options.onBadRecord(error)
      }
    }
    const isMember = (machinePeerId: string): boolean => roster.entryOf(machinePeerId) !== undefined
    isNews = (await trust.takeDepartures(push.departures, isMember)) || isNews
    if (push.isLast) return isNews
  }
  throw new NfltrError('protocol_violation', 'The peer sent more roster pages than a mesh can have.')
}

async function receive<K extends RosterMessage['type']>(
  frames: FrameStream,
  type: K,
): Promise<Extract<RosterMessage, { type: K }>> {
  const bytes = await frames.read()
  if (bytes === undefined) throw frames.violation ?? new NfltrError('link_down', 'The peer ended the roster exchange.')
  const message = decodeRoster(bytes)
  if (isOfType(message, type)) return message
  throw new NfltrError('protocol_violation', `The peer sent ${message.type} where ${type} belongs.`)
}

function isOfType<K extends RosterMessage['type']>(
  message: RosterMessage,
  type: K,
): message is Extract<RosterMessage, { type: K }> {
  return message.type === type
}
