import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * A file of this program by its path below `src/`, without extension: the source runs as it is, and so does the build, and
 * each starts its own kind. A module of a build cannot tell from its own place, since a build joins modules.
 */
export function programFile(name: string): string {
  const { folder, extension } = programRoot()
  return join(folder, `${name}.${extension}`)
}

/** Where package.json lies. */
export function packageFolder(): string {
  return dirname(programRoot().folder)
}

function programRoot(): { readonly folder: string; readonly extension: 'ts' | 'js' } {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    for (const extension of ['ts', 'js'] as const) {
      if (existsSync(join(folder, `cli/main.${extension}`))) return { folder, extension }
    }
    if (folder === dirname(folder)) throw new Error(`no program lies around ${import.meta.dirname}`)
  }
}
