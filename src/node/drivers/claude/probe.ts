import type { DriverProbe } from '../../../ports/agent-driver.ts'
import type { Programs } from '../../../ports/programs.ts'
import type { Environment } from './environment.ts'

/** The version whose interface was measured. Older ones may lack what the driver relies on; newer ones are told by `init`. */
export const claudeVersionMin = '2.1.332'

/** A cold start of the program's 400 MB takes some seconds. */
const probeTimeoutMs = 30_000

/** Asks the program for its version and nothing else: no model call, no settings, nothing of a repository. */
export async function probeClaude(
  programs: Programs,
  options: { readonly program: string; readonly own: Environment; readonly signal: AbortSignal },
): Promise<DriverProbe> {
  const { own, signal } = options
  const searchPath = own['PATH'] ?? ''
  const program = await programs.find(options.program, searchPath)
  if (program === undefined) {
    return absent(
      'claude_missing',
      `${options.program} was not found or cannot be run. Install Claude Code, or name it with --claude.`,
    )
  }
  const env = { PATH: searchPath, HOME: own['HOME'] ?? '/', DISABLE_AUTOUPDATER: '1' }
  let stdout: string
  try {
    const end = await programs.run(program, { args: ['--version'], env, timeoutMs: probeTimeoutMs, signal })
    stdout = end.stdout
  } catch (error) {
    return absent(
      'claude_missing',
      `${program} could not be started: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
  const version = /^(\d+\.\d+\.\d+)\b.*Claude Code/.exec(stdout.trim())?.[1]
  if (version === undefined) return absent('claude_missing', `${program} did not answer as Claude Code does.`)
  if (isOlder(version, claudeVersionMin)) {
    return absent(
      'claude_too_old',
      `Claude Code ${version} is older than ${claudeVersionMin}. Update it: claude update.`,
    )
  }
  return { type: 'present', program, version }
}

function absent(reason: 'claude_missing' | 'claude_too_old', message: string): DriverProbe {
  return { type: 'absent', reason, message }
}

export function isOlder(version: string, than: string): boolean {
  const [one, other] = [version, than].map((text) => text.split('.').map(Number))
  for (const [index, part] of (other ?? []).entries()) {
    const difference = (one?.[index] ?? 0) - part
    if (difference !== 0) return difference < 0
  }
  return false
}
