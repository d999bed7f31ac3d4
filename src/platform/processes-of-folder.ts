import { readFileSync } from 'node:fs'
import process from 'node:process'
import { listProcesses, type ProcessEntry } from './process-table.ts'

/**
 * Running processes whose command line or first environment names a folder, but for this one: what a temporary home
 * left behind. Processes of other users are not seen.
 */
export function processesOfFolder(folder: string): readonly ProcessEntry[] {
  return listProcesses().filter((entry) => entry.pid !== process.pid && !entry.isZombie && names(entry.pid, folder))
}

function names(pid: number, folder: string): boolean {
  return ['cmdline', 'environ'].some((file) => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, 'utf8').includes(folder)
    } catch {
      // It ended meanwhile, is not ours, or this system has no such file.
      return false
    }
  })
}
