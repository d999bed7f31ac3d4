import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Home } from '../../../src/ports/home.ts'
import { openHome } from '../../../src/store/home/home.ts'

/** A folder for one test, removed after it. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'nfltr-home-'))
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  return folder
}

export function temporaryHome(): Home & { readonly root: string } {
  const root = temporaryFolder()
  return { root, ...openHome({ home: root, env: {} }) }
}
