import type { Stream } from '@libp2p/interface'
import { clip } from '../core/clip.ts'
import { type ErrorCode, NfltrError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { AccountAnswer } from '../core/node-account.ts'
import type { Clock } from '../ports/clock.ts'
import type { AnswerAccount } from '../ports/peers.ts'
import { type AccountMessage, accountMessageMaxBytes, decodeAccount, encodeAccount } from '../wire/account-codec.ts'
import { FrameStream } from './frame-stream.ts'
import type { MemberLink } from './member-links.ts'
import type { Refusals } from './refusals.ts'
import { untilAborted } from './until-aborted.ts'

export const accountProtocol = '/nfltr/account/1.0.0'

/** One question and one answer, on a stream of their own. */
interface Exchange {
  readonly clock: Clock
  readonly link: MemberLink
}

/**
 * The hub's side: one page, checked as far as it can be without knowing more.
 *
 * @throws {NfltrError} as `Peers.askAccount`
 */
export async function askAccount(
  { clock, link, refusals }: Exchange & { readonly refusals: Refusals },
  after: string | undefined,
): Promise<AccountAnswer> {
  const { name } = link.facts
  return await within(clock, async (signal) => {
    const frames = framesOn(await openStream(link, signal), clock, signal)
    try {
      await frames.send(encodeAccount(after === undefined ? { type: 'ask' } : { type: 'ask', after }))
      const message = await received(frames)
      if (message.type === 'refused') {
        const { code, message: text } = message
        throw new NfltrError(code, `${name} does not tell what it has: ${text}`, { details: { by: 'peer' } })
      }
      const page = pageAfter(message, after)
      frames.close()
      return page
    } catch (error) {
      if (isViolation(error)) refusals.add(error.code)
      frames.close(error instanceof Error ? error : new Error(String(error)))
      throw error
    }
  })
}

/**
 * The node's side. Who asks has been looked at; what of is the answer's to decide.
 *
 * @throws {NfltrError} what is wrong with the question, `timed_out`, `link_down`
 */
export async function answerAccount(stream: Stream, { clock, link }: Exchange, answer: AnswerAccount): Promise<void> {
  await within(clock, async (signal) => {
    const frames = framesOn(stream, clock, signal)
    const message = await received(frames)
    if (message.type !== 'ask') throw new NfltrError('protocol_violation', 'The stream began with no question.')
    await frames.send(encodeAccount(await answered(answer(link.facts, message.after))))
    frames.close()
  })
}

async function answered(answer: Promise<AccountAnswer>): Promise<AccountMessage> {
  try {
    return { type: 'page', ...(await answer) }
  } catch (error) {
    if (!(error instanceof NfltrError)) throw error
    return { type: 'refused', code: error.code, message: clip(error.message, refusalMaxBytes) }
  }
}

/** What fits into the field. */
const refusalMaxBytes = 1_000

/** Attempts come in their order, each behind all that came before: so no page goes round in a circle. */
function pageAfter(message: AccountMessage, after: string | undefined): AccountAnswer {
  if (message.type !== 'page') throw violation('The answer was no page of attempts.')
  const { attempts, isLast } = message
  let last = after ?? ''
  for (const { attemptId } of attempts) {
    if (attemptId <= last) throw violation('The attempts on the page were not in their order.')
    last = attemptId
  }
  if (!isLast && attempts.length === 0) throw violation('The page was empty, and not the last.')
  return { attempts, isLast }
}

async function openStream(link: MemberLink, signal: AbortSignal): Promise<Stream> {
  const { name, softwareVersion } = link.facts
  try {
    return await link.connection.newStream(accountProtocol, { signal })
  } catch (cause) {
    if (cause instanceof Error && cause.name === 'UnsupportedProtocolError') {
      const message = `${name} runs version ${softwareVersion}, which does not tell what it has on record.`
      throw new NfltrError('unsupported', message, { cause })
    }
    throw new NfltrError('link_down', `${name} could not be asked.`, { cause })
  }
}

async function received(frames: FrameStream): Promise<AccountMessage> {
  const bytes = await frames.read()
  if (bytes === undefined) throw frames.violation ?? new NfltrError('link_down', 'The stream ended without a word.')
  return decodeAccount(bytes)
}

function framesOn(stream: Stream, clock: Clock, signal: AbortSignal): FrameStream {
  const frames = new FrameStream(stream, { clock, frameMaxBytes: accountMessageMaxBytes })
  signal.addEventListener('abort', () => frames.close(new NfltrError('timed_out', 'The exchange took too long.')))
  return frames
}

async function within<T>(clock: Clock, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const timer = clock.after(limits.accountAnswerMs, () => controller.abort())
  try {
    return await untilAborted(work(controller.signal), controller.signal)
  } finally {
    timer.cancel()
  }
}

/** What says that the peer broke the protocol, not that it is away. */
const violations: readonly ErrorCode[] = ['invalid_frame', 'frame_too_large', 'protocol_violation']

function isViolation(error: unknown): error is NfltrError {
  return error instanceof NfltrError && violations.includes(error.code)
}

function violation(what: string): NfltrError {
  return new NfltrError('protocol_violation', what)
}
