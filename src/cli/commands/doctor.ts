import type { Command } from 'commander'
import { leaf } from '../command.ts'
import type { CliIo } from '../io.ts'

/** One thing that was looked at. `fix` says what to do about it, where something is wrong. */
export interface Check {
  readonly name: string
  readonly ok: boolean
  readonly message: string
  readonly fix?: string
}

export interface DoctorWorld {
  readonly io: CliIo
  examine(options: {
    readonly home?: string
    readonly claude?: string
    /** A machine of the mesh to look at as well. */
    readonly node?: string
  }): Promise<readonly Check[]>
}

/** `nfltr doctor` — looks at everything a spawn on this machine needs, and names the one thing to fix first. */
export function doctor(world: DoctorWorld): Command {
  return leaf('doctor', 'check what this machine needs to run agents, and say what to fix')
    .option('--claude <path>', 'the Claude Code program to check')
    .option('--node <name>', 'also whether that machine of the mesh is ready to run agents')
    .action(async (_options: unknown, command: Command) => {
      const checks = await world.examine(command.optsWithGlobals())
      const first = checks.find((check) => !check.ok)
      const lines = checks.map(({ ok, name, message }) => `${ok ? 'ok ' : 'BAD'}  ${name}: ${message}`)
      if (first?.fix !== undefined) lines.push('', `Fix this first: ${first.fix}`)
      world.io.answer({ ok: first === undefined, checks }, lines.join('\n'))
      if (first !== undefined) process.exitCode = 1
    })
}
