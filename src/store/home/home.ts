import type { Home } from '../../ports/home.ts'
import { credentialFiles } from './credential-files.ts'
import { issuerBook } from './issuer-book.ts'
import { keyFiles } from './key-files.ts'
import { meshFiles } from './mesh-files.ts'
import { type HomeChoice, homePaths } from './paths.ts'
import { runningProcesses } from './running-processes.ts'

/** One machine's home on disk. Nothing is made before something is written. */
export function openHome(choice: HomeChoice = {}): Home {
  const paths = homePaths(choice)
  return {
    paths,
    keys: keyFiles(paths),
    mesh: meshFiles(paths),
    issuer: issuerBook(paths),
    credentials: credentialFiles(paths),
    running: runningProcesses(paths),
  }
}
