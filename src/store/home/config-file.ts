import { dirname } from 'node:path'
import { ensurePrivateFolder, writeFileAtomically } from '../../platform/files.ts'
import type { HomePaths } from '../../ports/home.ts'
import { readText } from './record-file.ts'

/** The text of this machine's `config.json`, which `config/settings.ts` reads; `undefined` where there is none. */
export function loadConfigText(paths: HomePaths): Promise<string | undefined> {
  return readText(paths.configFile)
}

export async function saveConfigText(paths: HomePaths, text: string): Promise<void> {
  await ensurePrivateFolder(dirname(paths.configFile))
  await writeFileAtomically(paths.configFile, text)
}
