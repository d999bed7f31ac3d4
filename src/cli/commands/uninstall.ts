import type { Command } from 'commander'
import { leaf } from '../command.ts'
import type { CliIo } from '../io.ts'

export interface UninstallOptions {
  readonly home?: string
  /** Also what belongs to this machine: keys, membership, settings, results, folders of agents. */
  readonly purge?: boolean
  /** Also where this machine is a member still, or has the key of a mesh. */
  readonly force?: boolean
}

/** What was done, as absolute paths. */
export interface Uninstalled {
  readonly removed: readonly string[]
  /** What is ours and stays, or lay beside it and is not ours. */
  readonly kept: readonly string[]
}

export interface UninstallWorld {
  readonly io: CliIo
  uninstall(options: UninstallOptions): Promise<Uninstalled>
}

/** `nfltr uninstall` — removes what the installer brought; with `--purge` also what this machine keeps. */
export function uninstall(world: UninstallWorld): Command {
  return leaf('uninstall', 'remove nfltr from this machine; keys, memberships and results stay')
    .option('--purge', 'also keys, membership, settings, results and folders of agents')
    .option('--force', 'with --purge: though this machine is a member still, or has the key of a mesh')
    .action(async (_options: unknown, command: Command) => {
      const done = await world.uninstall(command.optsWithGlobals())
      const lines = [
        ...(done.removed.length === 0 ? ['There was nothing to remove.'] : ['Removed:', ...done.removed.map(indented)]),
        ...(done.kept.length === 0 ? [] : ['Kept:', ...done.kept.map(indented)]),
      ]
      world.io.answer({ ...done }, lines.join('\n'))
    })
}

function indented(path: string): string {
  return `  ${path}`
}
