import type { Connection, Libp2p, Stream } from '@libp2p/interface'
import { NfltrError } from '../core/errors.ts'
import type { Greeter } from './greeter.ts'
import type { MemberLink } from './member-links.ts'
import type { Quarantine } from './quarantine.ts'
import type { Refusals } from './refusals.ts'

export interface GateOptions {
  readonly host: Libp2p
  readonly quarantine: Quarantine
  readonly greeter: Greeter
  readonly refusals: Refusals
}

/** Streams of one protocol that a member may have open on one connection at once. */
const inboundStreamsMax = 32

/** Registers a protocol that strangers may use: hello, and join on an issuer. Nothing else goes through here. */
export function serveStrangers(
  gate: GateOptions,
  protocol: string,
  handle: (stream: Stream, connection: Connection) => Promise<void>,
): Promise<void> {
  return gate.host.handle(protocol, (stream, connection) => guarded(gate, stream, () => handle(stream, connection)), {
    maxInboundStreams: inboundStreamsMax,
  })
}

/**
 * Registers a protocol for members. A stream that comes while hello is under way waits for its outcome, because the peer may
 * have finished a moment earlier; a stream of a stranger ends its connection.
 */
export function serveMembers(
  gate: GateOptions,
  protocol: string,
  handle: (stream: Stream, link: MemberLink) => Promise<void>,
): Promise<void> {
  return serveStrangers(gate, protocol, async (stream, connection) => {
    const admission = gate.quarantine.admissionOf(connection)
    if (!(await admission.verdict())) {
      admission.cut(new NfltrError('not_a_member', `A stream of ${protocol} came before hello.`))
      stream.abort(new Error('not a member'))
      return
    }
    await handle(stream, await gate.greeter.outcome(connection))
  })
}

/** A handler that fails ends its stream, is counted, and nothing more: libp2p must never see it throw. */
async function guarded(gate: GateOptions, stream: Stream, handle: () => Promise<void>): Promise<void> {
  try {
    await handle()
  } catch (error) {
    if (!(error instanceof NfltrError && error.code === 'link_down')) gate.refusals.addError(error)
    stream.abort(error instanceof Error ? error : new Error(String(error)))
  }
}
