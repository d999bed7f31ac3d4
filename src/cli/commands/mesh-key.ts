import type { Command } from 'commander'
import { leaf, noun } from '../command.ts'
import { machineName } from '../values.ts'
import type { MeshWorld } from './mesh.ts'

const passphraseFlag = [
  '--passphrase-file <file>',
  'the passphrase, in a file only you can read; - reads standard input; default: it is asked for',
] as const

type Document = Readonly<Record<string, unknown>>

/** `nfltr mesh key` — the mesh key as an encrypted file, and another in its place, for the day the owner's machine is lost. */
export function meshKey(world: MeshWorld): Command {
  const commands = [keyExport(world), keyImport(world), keyReplace(world)]
  return noun('key', 'the mesh key: as an encrypted recovery file, or another in its place', commands)
}

function keyReplace(world: MeshWorld): Command {
  return leaf('replace', 'put another key in the place of the mesh key, where somebody else may have it').action(
    async (_options: unknown, command: Command) => {
      const replaced = await world.replaceKey(command.optsWithGlobals())
      const [members, missing, leftOut, confirmed] = (['members', 'unconfirmed', 'left_out', 'confirmed'] as const).map(
        (field) =>
          (replaced[field] as readonly Document[]).map(({ name, reason }) => [name, reason].filter(Boolean).join(': ')),
      )
      const owners = replaced['former_owners'] as readonly string[]
      const said = (text: string, names: readonly string[] = []): string[] =>
        names.length === 0 ? [] : [text.replace('NAMES', names.join(', '))]
      world.io.answer(
        replaced,
        [
          'The key of the mesh was replaced: the former one lets nobody in any more.',
          ...said('Members are: NAMES.', members),
          ...said('Without their key they own the mesh no more (nfltr mesh promote NAME): NAMES.', owners),
          ...said('No members any more: NAMES.', leftOut),
          ...said('It is known on: NAMES.', confirmed),
          ...said(
            'Not reached yet: NAMES. They hear it from the first member they meet; until then they believe the former key.',
            missing,
          ),
          'Recovery files of the former key are worth nothing now: nfltr mesh key export FILE',
        ].join('\n'),
      )
    },
  )
}

function keyExport(world: MeshWorld): Command {
  return leaf('export', 'write the mesh key to an encrypted recovery file')
    .argument('<file>', 'the file to make; it must not be there yet')
    .option(...passphraseFlag)
    .action(async (file: string, _options: unknown, command: Command) => {
      const written = await world.exportKey({ ...command.optsWithGlobals(), file })
      world.io.answer(
        written,
        `The mesh key is in ${file}, encrypted. Keep it off this machine: with its passphrase it owns the mesh.`,
      )
    })
}

function keyImport(world: MeshWorld): Command {
  return leaf('import', 'make this machine an owner with the mesh key from a recovery file')
    .argument('<file>', 'the recovery file')
    .option(...passphraseFlag)
    .option('--name <name>', "this machine's name, where it is no member yet; default: its host name", machineName)
    .action(async (file: string, _options: unknown, command: Command) => {
      const owner = await world.importKey({ ...command.optsWithGlobals(), file })
      world.io.answer(
        owner,
        `${String(owner['machine'])} owns mesh ${String(owner['mesh_id'])} now.\nRevoke the machine that was lost: nfltr mesh revoke NAME`,
      )
    })
}
