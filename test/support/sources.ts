import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const root = join(import.meta.dirname, '../..')

/** Text of a file of the repository, by its path from the root. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** Paths from the root, sorted, with `/`. */
export function files(pattern: string): readonly string[] {
  return globSync(pattern, { cwd: root }).sort()
}

/** Every file that is or could be committed: tracked, or new and not ignored. Without git: the folders that are ours. */
export function committed(): readonly string[] {
  const git = spawnSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  })
  const listed =
    git.status === 0
      ? git.stdout.split('\n').filter((path) => path !== '')
      : files('{bin,docs,scripts,sim,src,test}/**/*')
  return [...new Set(listed)].filter((path) => existsSync(join(root, path))).sort()
}

/**
 * The code without its comments, line numbers kept. Good enough for the checks of this repository: it knows strings and
 * template literals, and treats a regular expression as code.
 */
export function withoutComments(source: string): string {
  return source.replace(
    /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/\/[^\n]*|\/\*[\s\S]*?\*\//g,
    (token) => (token.startsWith('//') || token.startsWith('/*') ? token.replace(/[^\n]/g, ' ') : token),
  )
}

/** What a module imports or re-exports: the specifiers, in order. */
export function imports(source: string): readonly string[] {
  const found = withoutComments(source).matchAll(/(?<![\w.'"`])(?:from\s*|import\s*\(?\s*)(['"])([^'"\n]+)\1/g)
  return [...found].map((match) => match[2] ?? '')
}
