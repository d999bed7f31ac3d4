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

/** Running processes of this user, but for this one, whose command line names a file below one of these folders. */
export function processesRunning(folders: readonly string[]): readonly ProcessEntry[] {
  const isOfThem = (pid: number): boolean => folders.some((folder) => hasInFile(pid, 'cmdline', `${folder}/`))
  return listProcesses().filter((entry) => entry.pid !== process.pid && !entry.isZombie && isOfThem(entry.pid))
}

function names(pid: number, folder: string): boolean {
  return ['cmdline', 'environ'].some((file) => hasInFile(pid, file, folder))
}

function hasInFile(pid: number, file: string, text: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8').includes(text)
  } catch {
    // It ended meanwhile, is not ours, or this system has no such file.
    return false
  }
}
