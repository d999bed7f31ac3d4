import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Machine } from './machine.ts'

interface Violation {
  readonly check: string
  readonly message: string
}

/**
 * Holds the history of every hub of a machine against every promise: whatever a test did, this is in order at its end.
 *
 * @throws {Error} with what `nfltr audit` found
 */
export async function expectCleanHistories(machine: Machine): Promise<void> {
  for (const hubId of await hubsOf(machine)) {
    const { stdout, stderr } = await machine.run(['audit', '--hub-id', hubId, '--json'])
    const document = JSON.parse(stdout === '' ? '{}' : stdout) as { readonly violations?: readonly Violation[] }
    // A hub that was never started has a folder and no store.
    if (document.violations === undefined && `${stdout}${stderr}`.includes('not_found')) continue
    if (document.violations === undefined) throw new Error(`the audit of ${hubId} ended with:\n${stdout}${stderr}`)
    const lines = document.violations.map(({ check, message }) => `${check}: ${message}`)
    if (lines.length > 0) throw new Error(`the audit of ${hubId} found:\n${lines.join('\n')}`)
  }
}

async function hubsOf({ home }: Machine): Promise<readonly string[]> {
  try {
    const names = await readdir(join(home, 'hubs'))
    return names.filter((name) => !name.endsWith('.aside'))
  } catch {
    return []
  }
}
