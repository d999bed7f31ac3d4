import { stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { NfltrError } from '../../core/errors.ts'
import { limits } from '../../core/limits.ts'
import { decodeInvite, type Invite } from '../../identity/invites.ts'
import type { JoinWish, MeshHost } from '../../mesh/peers.ts'
import type { Context } from '../compose.ts'
import { readTextFile } from '../input.ts'
import { machineFacts } from './mesh-process.ts'

/** The longest a join may take, in milliseconds. */
const joinTimeoutMs = 30_000

export interface InviteSource {
  readonly inviteFile?: string
  readonly peer?: readonly string[]
  readonly name?: string
}

/**
 * The invite given to a command: a file, standard input, `NFLTR_INVITE` or the prompt, in this order.
 *
 * @returns `undefined` where none was given and nobody is there to ask
 * @throws {NfltrError} `invite_invalid`; `invalid_argument` for a file that cannot be read
 */
export async function givenInvite(
  context: Context,
  source: InviteSource,
  options: { readonly mayAsk: boolean },
): Promise<Invite | undefined> {
  const { io, env } = context
  if (source.inviteFile === '-') return decodeInvite(await io.readInput())
  if (source.inviteFile !== undefined) return decodeInvite(await readInviteFile(context, source.inviteFile))
  if (env['NFLTR_INVITE'] !== undefined && env['NFLTR_INVITE'] !== '') return decodeInvite(env['NFLTR_INVITE'])
  if (!options.mayAsk || !io.isInteractive) return undefined
  return decodeInvite(await io.ask('Invite: ', { isSecret: true }))
}

async function readInviteFile(context: Context, file: string): Promise<string> {
  const mode = await stat(file).then(
    (found) => found.mode,
    () => 0,
  )
  // An invite is good once and for minutes; a file that others can read deserves a word, not a refusal.
  if ((mode & 0o077) !== 0) context.io.note(`${file} can be read by other users; chmod 600 keeps an invite yours.`)
  return await readTextFile(file, '--invite-file')
}

/** @throws {NfltrError} `wrong_mesh` where a member is given an invite of another mesh: it would stay where it is unawares */
export function refuseForeign(invite: Invite | undefined, membership: { readonly meshId: string }): void {
  if (invite === undefined || invite.meshId === membership.meshId) return
  throw new NfltrError('wrong_mesh', 'The invite is of another mesh than the one this machine belongs to.', {
    hint: 'Another mesh needs another home: --home DIR or NFLTR_HOME.',
    details: { mesh_id: membership.meshId, invite_mesh_id: invite.meshId },
  })
}

/** Redeems an invite with its issuer. @throws {NfltrError} as `MeshHost.join` does */
export async function redeem(mesh: MeshHost, invite: Invite, source: InviteSource): Promise<void> {
  const wish: JoinWish = {
    name: source.name ?? machineNameOfHost(),
    ...machineFacts,
    ...(source.peer === undefined ? {} : { peers: source.peer }),
    signal: AbortSignal.timeout(joinTimeoutMs),
  }
  await mesh.join(invite, wish)
}

/** This host's name, made to fit the rule for names. */
export function machineNameOfHost(): string {
  const name = hostname()
    .toLowerCase()
    .replace(/\..*$/, '')
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, limits.nameMaxBytes)
  return name === '' ? 'machine' : name
}
