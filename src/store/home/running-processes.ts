import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { ensurePrivateFolder } from '../../platform/files.ts'
import { ownName, type ProcessName } from '../../platform/process-table.ts'
import type { Holder, HomePaths, RunningProcess, RunningProcesses } from '../../ports/home.ts'
import { isGone } from './holder-lock.ts'
import { folderName } from './paths.ts'
import { namesIn, readRecord, writeRecord } from './record-file.ts'

const kind = {
  name: 'a running process',
  shape: {
    kind: 'string',
    peerId: 'string',
    listen: 'list',
    hubId: 'string?',
    pid: 'number',
    start: 'string',
    bootId: 'string',
    host: 'string',
    sinceMs: 'number',
  },
} as const

/** Which processes of a home run and where they listen: a file for each, removed at its end and ignored after its death. */
export function runningProcesses(paths: HomePaths): RunningProcesses {
  const folder = join(paths.run, 'processes')
  return {
    register: async (facts) => {
      await ensurePrivateFolder(folder)
      const path = join(folder, folderName(facts.peerId))
      await writeRecord(path, { ...facts, ...ownName(), host: hostname(), sinceMs: Date.now() })
      return { release: () => rm(path, { force: true }) }
    },
    list: async () => {
      const alive: (RunningProcess & Holder)[] = []
      for (const name of await namesIn(folder)) {
        const path = join(folder, name)
        const record = await readRecord<RunningProcess & Holder & ProcessName>(path, kind)
        if (record === undefined) continue
        if (isGone(record)) {
          await rm(path, { force: true })
          continue
        }
        const { start: _start, bootId: _bootId, ...facts } = record
        alive.push(facts)
      }
      return alive
    },
  }
}
