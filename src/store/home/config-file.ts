import { dirname } from 'node:path'
import { badPathOr, ensurePrivateFolder, writeFileAtomically } from '../../platform/files.ts'
import type { HomePaths } from '../../ports/home.ts'
import { readText } from './record-file.ts'

/**
 * The text of this machine's `config.json`, which `config/settings.ts` reads; `undefined` where there is none.
 *
 * @throws {NfltrError} `invalid_argument` where it is no file that this user can read
 */
export function loadConfigText(paths: HomePaths): Promise<string | undefined> {
  return readText(paths.configFile).catch((error: unknown) => {
    throw badPathOr(error, { path: paths.configFile, argument: 'config.json', deed: 'read' })
  })
}

export async function saveConfigText(paths: HomePaths, text: string): Promise<void> {
  await ensurePrivateFolder(dirname(paths.configFile))
  await writeFileAtomically(paths.configFile, text).catch((error: unknown) => {
    throw badPathOr(error, { path: paths.configFile, argument: 'config.json', deed: 'written' })
  })
}
