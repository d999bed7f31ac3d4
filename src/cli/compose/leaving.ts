import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeClient } from '../../control/client.ts'
import { NfltrError } from '../../core/errors.ts'
import { isLeaving, loadAnyMachine, type Machine } from '../../identity/mesh-setup.ts'
import type { Home } from '../../ports/home.ts'
import { openHome } from '../../store/home/home.ts'
import type { NodeLeaveOptions } from '../commands/node.ts'
import type { Context } from '../compose.ts'
import { findControl } from './control-files.ts'
import { departFrom } from './departure.ts'
import { findRunningHub } from './hub-starter.ts'
import { openMeshProcess } from './mesh-process.ts'

type Document = Readonly<Record<string, unknown>>

/** How long hubs may take to end once they are asked to, in milliseconds; and how often it is looked at. */
const hubsEndMs = 10_000
const lookEveryMs = 50

/**
 * `nfltr node leave`: this machine is a member no more. Its node does it where one runs; where none does, one is started for
 * it, since what ran here may still run and hubs may still be owed results. Keys, settings, credentials and everything that
 * agents left behind stay.
 *
 * @throws {NfltrError} `no_mesh`; `owner_may_not_leave`; `in_use` while agents run, results wait or hubs are here, unless
 *   forced; `timed_out`; `unreachable` where nobody could be told: it is no member, and the same command goes on
 */
export async function leave(context: Context, options: NodeLeaveOptions): Promise<Document> {
  const home = openHome({ ...options, env: context.env })
  const machine = await loadAnyMachine(home)
  // Killed in the middle: nothing is asked any more, it only goes on.
  if (await isLeaving(home, machine))
    return await leaveAsCommand(context, home, { isUnheardFine: options.force === true })
  const { roles, name } = machine.membership
  if (roles.includes('owner')) throw ownerStays(name)
  const isForced = options.force === true
  if (roles.includes('hub')) await endHubs(home, isForced)
  if (!roles.includes('node')) return await leaveAsCommand(context, home)
  const running = await leaveByNode(home, isForced)
  if (running !== undefined) return running
  const { leaveAsNode } = await import('./node-process.ts')
  return await leaveAsNode(context, options)
}

/** A member whose only stake here is its membership. */
async function leaveAsCommand(
  context: Context,
  home: Home,
  options: { readonly isUnheardFine?: boolean } = {},
): Promise<Document> {
  const machine: Machine = await loadAnyMachine(home)
  const { mesh, close } = await openMeshProcess(context, { home, machine, kind: 'cli' })
  try {
    return await departFrom({ home, mesh, machine, ...options })
  } finally {
    await close()
  }
}

/** @returns undefined where no node runs */
async function leaveByNode(home: Home, isForced: boolean): Promise<Document | undefined> {
  try {
    return await nodeClient(await findControl(home.paths, { kind: 'node' })).leave({ isForced })
  } catch (thrown) {
    if (thrown instanceof NfltrError && thrown.code === 'not_running') return undefined
    throw thrown
  }
}

/** What a hub of this machine has would be out of reach: its agents end elsewhere, and what was not read waits on this disk. */
async function endHubs(home: Home, isForced: boolean): Promise<void> {
  const hubs = await readdir(join(home.paths.hub('any'), '..')).catch(() => [])
  if (hubs.length > 0 && !isForced) {
    throw new NfltrError(
      'in_use',
      `This machine is a hub as well: ${hubs.length} projects have agents and results here.`,
      {
        hint: 'Outside the mesh they are out of reach, and agents of theirs are stopped. Leave all the same with --force.',
        details: { hubs },
      },
    )
  }
  for (const hubId of hubs) await (await findRunningHub(home, hubId))?.stop()
  const isAnyUp = async (): Promise<boolean> => (await home.running.list()).some(({ kind }) => kind === 'hub')
  for (let waitedMs = 0; await isAnyUp(); waitedMs += lookEveryMs) {
    if (waitedMs >= hubsEndMs) throw new NfltrError('timed_out', 'A hub of this machine did not end in time.')
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
}

function ownerStays(name: string): NfltrError {
  return new NfltrError('owner_may_not_leave', `${name} is an owner of its mesh, and does not leave it.`, {
    hint: 'Stop nfltr node join to take no agents. To hand the mesh over: nfltr mesh promote NAME here, then nfltr mesh revoke NAME there.',
  })
}
