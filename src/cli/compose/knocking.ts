import { NfltrError } from '../../core/errors.ts'
import type { Role } from '../../core/membership.ts'
import { fingerprintOf } from '../../identity/keys.ts'
import type { MeshHost } from '../../mesh/peers.ts'
import type { Context } from '../compose.ts'
import { machineNameOfHost } from './join-mesh.ts'
import type { Lifetime } from './lifetime.ts'
import { machineFacts } from './mesh-process.ts'

/** How long one knock may take, and how long it is until the next, in milliseconds. */
const knockTimeoutMs = 15_000
const knockEveryMs = 2_000

/** Digits of the mesh's fingerprint that have to be given: fewer could be met by a mesh made for it. */
const meshDigitsMin = 32

export interface KnockOptions {
  readonly peer?: readonly string[]
  /** Fingerprint of the mesh, as its owner sees it. */
  readonly mesh?: string
  readonly name?: string
}

export interface Knocking {
  readonly mesh: MeshHost
  readonly options: KnockOptions
  readonly roles: readonly Role[]
  readonly lifetime: Lifetime
  readonly tell: (event: { readonly event: 'knocking'; readonly fingerprint: string }) => void
}

/**
 * Asks to be let in without an invite, again and again until an owner has answered (rules 13, 14). The mesh is the one
 * whose fingerprint was given, or that a person confirmed; whoever else answers at the address is refused.
 *
 * @returns whether this machine is a member now; false when the command was ended before
 * @throws {NfltrError} `no_invite` without an address, or without a fingerprint and a person; `wrong_mesh`; `knock_denied`;
 *   `unreachable` where nobody answered the first time
 */
export async function knockUntilAnswered(context: Context, knocking: Knocking): Promise<boolean> {
  const { mesh, options, lifetime, tell } = knocking
  const [first, ...others] = options.peer ?? []
  if (first === undefined) throw noWayIn()
  const accepts = await meshMeant(context, { ...knocking, address: first })
  let isPending = false
  while (!lifetime.signal.aborted) {
    let unanswered: NfltrError | undefined
    for (const address of [first, ...others]) {
      const answer = await knockOnce(knocking, { address, accepts })
      if (answer === 'joined' || answer === 'ended') return answer === 'joined'
      if (answer !== 'waiting') {
        unanswered ??= answer
        continue
      }
      if (!isPending) tell({ event: 'knocking', fingerprint: fingerprintOf(mesh.self.peerId) })
      isPending = true
    }
    // Once it is known to wait, an issuer that is away for a while is no reason to give up.
    if (!isPending && unanswered !== undefined) throw unanswered
    await pause(knockEveryMs, lifetime.signal)
  }
  return false
}

/**
 * One knock.
 *
 * @returns what came of it; the error where nobody there takes joiners, or nobody is there: another address may do
 */
async function knockOnce(
  { mesh, options, roles, lifetime }: Knocking,
  knock: { readonly address: string; readonly accepts: (meshId: string) => boolean },
): Promise<'joined' | 'waiting' | 'ended' | NfltrError> {
  const { address, accepts } = knock
  const signal = AbortSignal.any([lifetime.signal, AbortSignal.timeout(knockTimeoutMs)])
  const name = options.name ?? machineNameOfHost()
  try {
    await mesh.knock({ address, accepts, roles, name, ...machineFacts, signal })
    return 'joined'
  } catch (error) {
    if (lifetime.signal.aborted) return 'ended'
    if (!(error instanceof NfltrError)) throw error
    if (error.code === 'knock_pending') return 'waiting'
    if (error.code === 'unreachable' || error.code === 'link_down') return error
    throw error
  }
}

/**
 * Checks, before anything is opened, that a machine without an invite may knock at all.
 *
 * @throws {NfltrError} `no_invite` without an address, or without a fingerprint and a person; `invalid_argument`
 */
export function requireWayIn(context: Context, options: KnockOptions): void {
  if ((options.peer ?? []).length === 0) throw noWayIn()
  if (options.mesh !== undefined) meshDigits(options.mesh)
  else if (!context.io.isInteractive) throw noFingerprint()
}

async function meshMeant(
  context: Context,
  of: Knocking & { readonly address: string },
): Promise<(meshId: string) => boolean> {
  const { io } = context
  const { options, mesh, lifetime, address } = of
  if (options.mesh !== undefined) {
    const digits = meshDigits(options.mesh)
    return (meshId) => fingerprintOf(meshId).slice('SHA256:'.length).startsWith(digits)
  }
  if (!io.isInteractive) throw noFingerprint()
  const signal = AbortSignal.any([lifetime.signal, AbortSignal.timeout(knockTimeoutMs)])
  const found = await mesh.meshAt({ address, ...machineFacts, signal })
  const said = await io.ask(
    `The mesh there has the fingerprint\n  ${fingerprintOf(found)}\nCompare it with mesh_fingerprint of \`nfltr mesh show\` on the owner’s machine. Is it the same? Type yes: `,
  )
  if (said.toLowerCase() !== 'yes') throw noFingerprint()
  return (meshId) => meshId === found
}

/** @throws {NfltrError} `invalid_argument` for what is no fingerprint, or too little of one */
export function meshDigits(text: string): string {
  const digits = text.replace(/^sha256:/i, '').toLowerCase()
  if (/^[0-9a-f]+$/.test(digits) && digits.length >= meshDigitsMin && digits.length <= 64) return digits
  throw new NfltrError('invalid_argument', '--mesh: that is no fingerprint of a mesh, or too little of one.', {
    hint: `Give mesh_fingerprint of \`nfltr mesh show\` on the owner’s machine: SHA256: and 64 hex digits, at least ${meshDigitsMin}.`,
    details: { argument: '--mesh' },
  })
}

function noWayIn(): NfltrError {
  return new NfltrError('no_invite', 'This machine is not a member, and no invite was given.', {
    hint: 'On an owner’s machine run `nfltr mesh invite`; give its line here with --invite-file, NFLTR_INVITE or on standard input. Without an invite, knock: --peer ADDRESS --mesh MESH_FINGERPRINT.',
  })
}

function noFingerprint(): NfltrError {
  return new NfltrError(
    'no_invite',
    'Nobody has confirmed which mesh this machine is to join, so nothing was said to it.',
    {
      hint: 'Give its fingerprint with --mesh: mesh_fingerprint of `nfltr mesh show` on the owner’s machine.',
      details: { argument: '--mesh' },
    },
  )
}

function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, delayMs)
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer)
        resolve()
      },
      { once: true },
    )
  })
}
