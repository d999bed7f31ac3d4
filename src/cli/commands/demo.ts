import type { Command } from 'commander'
import { leaf } from '../command.ts'
import type { CliIo } from '../io.ts'

export interface DemoWorld {
  readonly io: CliIo
  run(
    options: { readonly claude?: boolean; readonly home?: string },
    tell: (event: DemoEvent) => void,
  ): Promise<DemoSummary>
}

export interface DemoEvent {
  readonly event: string
  /** What people read of it. */
  readonly text: string
  readonly [field: string]: unknown
}

export interface DemoSummary {
  readonly ok: boolean
  readonly agents: number
  readonly results: number
  readonly duplicates: number
  readonly lost: number
  readonly left_behind: number
}

/** `nfltr demo` — the main job on this machine alone, in a temporary folder. */
export function demo(world: DemoWorld): Command {
  return leaf('demo', 'show the main job on this machine alone')
    .option('--claude', 'with the installed Claude Code and your credential instead of the scripted agent')
    .action(async (_options: unknown, command: Command) => {
      const summary = await world.run(command.optsWithGlobals(), ({ text, ...event }) => world.io.event(event, text))
      world.io.event(
        { event: 'summary', ...summary },
        `\n${summary.agents} agents, ${summary.results} results, ${summary.duplicates} duplicates, ${summary.lost} lost, ${summary.left_behind} left behind.`,
      )
      if (!summary.ok) process.exitCode = 1
    })
}
