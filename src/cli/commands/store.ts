import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { BackupDocument, RepairDocument, RestoreDocument } from '../../ports/hub-api.ts'
import { hubLeaf, leaf } from '../command.ts'
import type { CliIo } from '../io.ts'

interface HubChoice {
  readonly home?: string
  readonly hubId?: string
}

/** What can be done with a store as a whole. */
export interface StoreWorld {
  readonly io: CliIo
  /** Through the hub that runs, else from its store. @throws {NfltrError} `not_found`, `store_damaged`, `disk_full` */
  backup(options: HubChoice & { readonly file: string }): Promise<BackupDocument>
  /** @throws {NfltrError} `store_held` while the hub runs, `not_found`, `invalid_argument`, `store_newer` */
  restore(options: HubChoice & { readonly file: string }): Promise<RestoreDocument>
  /** @throws {NfltrError} `store_held` while its process runs, `not_found`, `store_newer` */
  repair(which: 'hub' | 'node', options: HubChoice): Promise<RepairDocument>
}

/** `nfltr hub backup FILE` */
export function hubBackup(world: StoreWorld): Command {
  return hubLeaf('backup', 'write all that this project’s hub knows into one file, also while it runs')
    .argument('<file>', 'the file to make; it holds briefs and results, and only you can read it')
    .action(async (file: string, _options: unknown, command: Command) => {
      const made = await world.backup({ ...command.optsWithGlobals(), file: resolve(file) })
      world.io.answer(made, `${made.file}: ${made.records} records of hub ${made.hub_id}, ${made.bytes} bytes.`)
    })
}

/** `nfltr hub restore FILE` */
export function hubRestore(world: StoreWorld): Command {
  return hubLeaf('restore', 'put this project’s hub back to what a backup holds, while it is stopped')
    .argument('<file>', 'what nfltr hub backup wrote')
    .action(async (file: string, _options: unknown, command: Command) => {
      const done = await world.restore({ ...command.optsWithGlobals(), file: resolve(file) })
      world.io.answer(
        done,
        [
          `Hub ${done.hub_id} is what it was at ${done.made_at}: ${done.records} records.`,
          'Its nodes are asked for what they have once it runs; results that may have been read before come with maybe_seen: true.',
          ...(done.kept_as === undefined ? [] : [`What was there is kept as ${done.kept_as}.`]),
        ].join('\n'),
      )
    })
}

/** `nfltr hub repair` */
export function hubRepair(world: StoreWorld): Command {
  return hubLeaf('repair', 'make a sound store of what is sound in this project’s hub, and say what was lost').action(
    async (_options: unknown, command: Command) => {
      const done = await world.repair('hub', command.optsWithGlobals())
      world.io.answer(done, repairText(done))
    },
  )
}

/** `nfltr node repair` */
export function nodeRepair(world: StoreWorld): Command {
  return leaf('repair', 'make a sound store of what is sound in this machine’s node, and say what was lost').action(
    async (_options: unknown, command: Command) => {
      const done = await world.repair('node', command.optsWithGlobals())
      world.io.answer(done, repairText(done))
    },
  )
}

const outcomes = {
  sound: 'The store is sound. Nothing was changed.',
  whole: 'Everything could be put right. Nothing was lost.',
  lossy: 'Not everything could be put right. What the other machines hold comes again once this runs.',
} as const

function repairText(done: RepairDocument): string {
  const of = done.records_expected === undefined ? '' : ` of ${done.records_expected}`
  return [
    outcomes[done.outcome],
    `records: ${done.records}${of}`,
    ...done.corrections.map(({ file, offset, found }) => `put right: ${file}${at(offset)}: ${found}`),
    ...done.lost.map((loss) => `lost: ${lossText(loss)}`),
    ...(done.kept_as === undefined ? [] : [`What was found is kept as ${done.kept_as}.`]),
  ].join('\n')
}

function lossText({ kind, file, found, from, to, state, holds }: RepairDocument['lost'][number]): string {
  const what = holds === undefined ? '' : ` (${holds})`
  if (kind === 'record') return `${from ?? ''}${what}${state === 'older' ? ', now at an older value' : ''}: ${found}`
  const where = file === undefined ? '' : `${file}: `
  return kind === 'range'
    ? `${where}${found}; keys from ${from ?? 'the first'} to ${to ?? 'the last'}${what}`
    : where + found
}

function at(offset: number | undefined): string {
  return offset === undefined ? '' : ` at byte ${offset}`
}
