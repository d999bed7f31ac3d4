import { NfltrError } from '../core/errors.ts'
import { clockToleranceMs, judgeClaimant, type Membership } from '../core/membership.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { MemberLink, MemberLinks } from './member-links.ts'
import type { OwnPlace } from './own-place.ts'
import type { Quarantine } from './quarantine.ts'
import type { Refusals } from './refusals.ts'

export interface LinkReviewOptions {
  readonly clock: Clock
  readonly links: MemberLinks
  readonly place: OwnPlace
  readonly quarantine: Quarantine
  readonly refusals: Refusals
}

/** How long a machine that has left may stay connected, so that it hears that it was heard; in milliseconds. */
const leaveMs = 2_000

/**
 * How long a member may stay connected whose membership does not count any more because of who signed it, in milliseconds: the
 * one that takes its place comes behind the news of that, on the same links.
 */
const replacingMs = 5_000

/** The longest that expiry goes unchecked, in milliseconds: a clock that was set shows by then. */
const reviewAtLeastMs = 10 * 60_000

/**
 * What hello granted is granted for as long as it would be granted again: links are held against members, revocations and
 * the clock whenever one of them changes, and a link that would be refused now ends at once (rules 15, 16).
 */
export class LinkReview {
  readonly #options: LinkReviewOptions
  /** Until when links may stay for a while, on the monotonic clock. */
  readonly #untilMs = new WeakMap<MemberLink, number>()
  #timer: Timer | undefined
  #isClosed = false

  constructor(options: LinkReviewOptions) {
    this.#options = options
  }

  /** Ends the links that would not be granted any more, and sets the time of the next look. */
  run(): void {
    if (this.#isClosed) return
    const { links, quarantine, refusals } = this.#options
    for (const link of links.all()) {
      if (link.admission.hasEnded) continue
      const objection = this.#objectionTo(link)
      if (objection === undefined) this.#untilMs.delete(link)
      if (objection === undefined || this.#mayLinger(link, objection)) continue
      refusals.add(objection.code)
      // A renewed member may come again at once; a revoked one is turned away for a while.
      if (objection.code === 'revoked' && !hasLeft(objection)) quarantine.refuse(link.facts.peerId, objection.code)
      link.admission.abort(objection)
    }
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  #mayLinger(link: MemberLink, objection: NfltrError): boolean {
    const delayMs = hasLeft(objection) ? leaveMs : objection.details['former_issuer'] === true ? replacingMs : 0
    if (delayMs === 0) return false
    const nowMs = this.#options.clock.nowMs()
    const untilMs = this.#untilMs.get(link) ?? nowMs + delayMs
    this.#untilMs.set(link, untilMs)
    return nowMs < untilMs
  }

  #objectionTo(link: MemberLink): NfltrError | undefined {
    const { place } = this.#options
    const membership = this.#newestOf(link)
    const objection = place.trust?.objectionTo(membership)
    if (objection !== undefined) return objection
    const { peerId, kind, hubId } = link.facts
    const refusal = judgeClaimant({
      remotePeerId: peerId,
      ownPeerId: place.facts.peerId,
      meshId: membership.meshId,
      membership,
      ...(link.certificate === undefined ? {} : { certificate: link.certificate }),
      claimedKind: kind,
      ...(hubId === undefined ? {} : { claimedHubId: hubId }),
      wallMs: place.wallMs(),
    })
    if (refusal === undefined) return undefined
    return new NfltrError(refusal, `${membership.name} may not be connected any more: ${refusal}.`)
  }

  #newestOf(link: MemberLink): Membership {
    const known = this.#options.place.roster?.entryOf(link.membership.machinePeerId)?.membership.body
    return known !== undefined && known.serial > link.membership.serial ? known : link.membership
  }

  #schedule(): void {
    this.#timer?.cancel()
    const { clock, links, place } = this.#options
    const delaysMs = links.all().flatMap((link) => {
      if (link.admission.hasEnded) return []
      const expiryMs = Math.min(
        this.#newestOf(link).expiresAtMs,
        link.certificate?.expiresAtMs ?? Number.MAX_SAFE_INTEGER,
      )
      const untilMs = this.#untilMs.get(link) ?? Number.POSITIVE_INFINITY
      return [expiryMs + clockToleranceMs - place.wallMs(), untilMs - clock.nowMs()]
    })
    if (delaysMs.length === 0) return
    this.#timer = clock.after(Math.min(Math.max(0, Math.min(...delaysMs)) + 1, reviewAtLeastMs), () => this.run())
  }
}

function hasLeft(objection: NfltrError): boolean {
  return objection.details['has_left'] === true
}
