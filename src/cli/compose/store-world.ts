import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'
import type { BackupDocument, RepairDocument } from '../../ports/hub-api.ts'
import type { BackupFacts } from '../../store/backup.ts'
import { openHome } from '../../store/home/home.ts'
import type { RepairReport } from '../../store/repair.ts'
import type { StoreWorld } from '../commands/store.ts'
import type { Context } from '../compose.ts'
import { findRunningHub } from './hub-starter.ts'
import { projectOf } from './project.ts'

export function storeWorld(context: Context): StoreWorld {
  const { env } = context
  const hubOf = (options: { readonly home?: string; readonly hubId?: string }) => {
    const home = openHome({ ...options, env })
    const { hubId } = projectOf({ ...options, env })
    return { home, hubId, dir: home.paths.hub(hubId) }
  }
  return {
    io: context.io,
    backup: async ({ file, ...options }) => {
      const { home, hubId, dir } = hubOf(options)
      const running = await findRunningHub(home, hubId)
      if (running !== undefined) return await running.backup({ file })
      assertStore(dir, hubId)
      const { openLevelStore } = await import('../../store/level-store.ts')
      const { writeBackup } = await import('../../store/backup.ts')
      const store = await openLevelStore(dir, { repairCommand: repairCommandOf(hubId) })
      try {
        return backupDocument(file, await writeBackup(store, file, { hubId, version: context.version }))
      } finally {
        await store.close()
      }
    },
    restore: async ({ file, ...options }) => {
      const { hubId, dir } = hubOf(options)
      const { restoreStore } = await import('../../store/restore.ts')
      const { header, records, identity, keptAs } = await restoreStore(dir, file, hubId)
      await forgetDeaths(dir)
      return {
        hub_id: hubId,
        file,
        made_at: header.made_at,
        records,
        store_id: identity.storeId,
        incarnation: identity.incarnation,
        ...(keptAs === undefined ? {} : { kept_as: keptAs }),
      }
    },
    repair: async (which, options) => {
      const { home, hubId, dir: hubDir } = hubOf(options)
      const dir = which === 'hub' ? hubDir : home.paths.node
      const { repairStore } = await import('../../store/repair.ts')
      const report = await repairStore(dir)
      await forgetDeaths(dir)
      return { ...(which === 'hub' ? { hub_id: hubId } : {}), ...repairDocument(report) }
    },
  }
}

/** What a person runs on a damaged store. */
export function repairCommandOf(hubId: string): string {
  return `nfltr hub repair --hub-id ${hubId}`
}

export function backupDocument(file: string, facts: BackupFacts): BackupDocument {
  const { hub_id, store_id, incarnation, commits, records, bytes, made_at } = facts
  return { file, hub_id, store_id, incarnation, commits, records, bytes, made_at }
}

function repairDocument({ storeId, recordsExpected, losses, keptAs, ...report }: RepairReport): RepairDocument {
  const { outcome, incarnation, records, corrections } = report
  return {
    outcome,
    store_id: storeId,
    incarnation,
    records,
    ...(recordsExpected === undefined ? {} : { records_expected: recordsExpected }),
    corrections,
    lost: losses,
    ...(keptAs === undefined ? {} : { kept_as: keptAs }),
  }
}

/** @throws {NfltrError} `not_found` where no hub of that id ever kept anything in this home */
export function assertStore(dir: string, hubId: string): void {
  if (existsSync(join(dir, 'db.marker')) || existsSync(join(dir, 'db'))) return
  throw new NfltrError('not_found', `There is no hub ${hubId} in this home: it has no store.`, {
    hint: 'Run this in the project’s folder, or name the hub with --hub-id.',
  })
}

/** The store is another one now: that its process died on the former does not keep it down (rule 39). */
async function forgetDeaths(dir: string): Promise<void> {
  await rm(join(dir, 'starts.json'), { force: true })
}
