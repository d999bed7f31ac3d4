import type { Command } from 'commander'
import { leaf, noun } from '../command.ts'
import { machineName } from '../values.ts'
import type { MeshWorld } from './mesh.ts'

const passphraseFlag = [
  '--passphrase-file <file>',
  'the passphrase, in a file only you can read; - reads standard input; default: it is asked for',
] as const

/** `nfltr mesh key` — the mesh key as an encrypted file, for the day the owner's machine is lost. */
export function meshKey(world: MeshWorld): Command {
  return noun('key', 'the mesh key as an encrypted recovery file', [keyExport(world), keyImport(world)])
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
