import { rm } from 'node:fs/promises'
import process from 'node:process'
import { setTimeout as pause } from 'node:timers/promises'
import { processesTouching } from '../../sim/soak/leftovers.ts'
import { waitingFor } from './open-waits.ts'

const lookEveryMs = 10

/**
 * Removes the folder of a test, once no process is left that names it: hubs, keepers and servers outlive whoever started them, and
 * one that still writes lets nobody remove its folder. They are ended by their process ids.
 */
export async function removeFolder(folder: string): Promise<void> {
  const tell = (): string => `the end of ${JSON.stringify(processesTouching(folder))}`
  await waitingFor(tell, endAll(folder))
  await rm(folder, { recursive: true, force: true })
}

async function endAll(folder: string): Promise<void> {
  for (let rest = processesTouching(folder); rest.length > 0; rest = processesTouching(folder)) {
    for (const { pid } of rest) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It had ended by itself.
      }
    }
    await pause(lookEveryMs)
  }
}
