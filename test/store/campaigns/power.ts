import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'

/** Whether this machine can build it: a package registry brings no C compiler. */
export function hasCompiler(): boolean {
  return spawnSync('cc', ['--version'], { stdio: 'ignore' }).status === 0
}

/**
 * Builds the library that tells what was synced, with the C compiler of this machine.
 *
 * @throws {Error} without one: a power cut that was not emulated must not look like one that was survived
 */
export function buildSyncLog(folder: string): string {
  const library = join(folder, 'sync-log.so')
  try {
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, join(import.meta.dirname, 'sync-log.c')], {
      stdio: 'pipe',
    })
  } catch (cause) {
    throw new Error('not available: emulating a power cut needs a C compiler named cc', { cause })
  }
  return library
}
