/**
 * `npm run build`: src/ to dist/, or to `-- --out FOLDER`, which has to lie below this repository for its packages. The
 * compiler erases the types; then the modules of each program are joined with those that they import, so that a start reads
 * tens of files and not hundreds. See docs/decisions/0009.
 */
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { type Plugin, rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')
const { out } = parseArgs({ options: { out: { type: 'string' } } }).values
const dist = out === undefined ? join(root, 'dist') : resolve(out)
/** Builds to different folders do not meet here. Its name is in what is built, so that it is always the same for dist/. */
const compiled = out === undefined ? join(root, 'node_modules/.cache/nfltr-build') : `${dist}.compiled`

/** What is started by its file: the command line, the keeper, and the script that plays an agent in the demo. */
const programs = ['cli/main', 'keeper/main', 'cli/demo/scripted-agent']
/** Native code, which finds its file from its own place. */
const leftOutside = ['level']

const httpModules = /^node:https?$/

/** What a package imports of Node's HTTP, without what an import of it brings along: see src/control/node-http.ts. */
const httpWithoutFetch: Plugin = {
  name: 'http-without-fetch',
  resolveId: { filter: { id: httpModules }, handler: (id) => `\0${id}` },
  load: {
    filter: { id: /^\0node:https?$/ },
    handler: (id) =>
      `const found = process.getBuiltinModule('${id.slice(1)}')\nexport default found\n` +
      'export const { Agent, Server, createServer, get, request } = found\n',
  },
}

/**
 * One character beyond Latin-1 makes a module's whole text take two bytes a character, for as long as its process lives: some
 * MiB in all. Written as escapes they say the same in every literal, and nothing in comments.
 */
function asAscii(code: string): string {
  if (/\\[^\0-\x7f]|\braw`[^`]*[^\0-\x7f`]/.test(code))
    throw new Error('a character stands where an escape would say something else')
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function compile(): void {
  rmSync(compiled, { recursive: true, force: true })
  const compiler = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json', '--outDir', compiled], {
    cwd: root,
    stdio: 'inherit',
  })
  if (compiler.status !== 0) process.exit(compiler.status ?? 1)
}

/** @returns every module that went into it */
async function joinModules(): Promise<readonly string[]> {
  rmSync(dist, { recursive: true, force: true })
  const input = Object.fromEntries(programs.map((name) => [name, join(compiled, `${name}.js`)]))
  await using bundle = await rolldown({
    cwd: root,
    input,
    platform: 'node',
    external: leftOutside,
    plugins: [httpWithoutFetch],
  })
  const { output } = await bundle.write({
    dir: dist,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'parts/[name]-[hash].js',
    keepNames: true,
  })
  for (const file of output) {
    const path = join(dist, file.fileName)
    if (file.type === 'chunk') writeFileSync(path, asAscii(readFileSync(path, 'utf8')))
  }
  return output.flatMap((file) => (file.type === 'chunk' ? Object.keys(file.modules) : []))
}

/** The licences of what is joined in: their texts go with the copies. */
function writeLicences(modules: readonly string[]): void {
  const folders = new Set(modules.flatMap((file) => /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? []))
  const texts = [...folders]
    .filter((folder) => !folder.includes('.cache'))
    .sort()
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
        name: string
        version: string
        license?: string
      }
      const files = globSync('{LICEN[CS]E,licen[cs]e}*', { cwd: folder }).sort()
      const text = files.map((file) => readFileSync(join(folder, file), 'utf8').trim()).join('\n\n')
      return `${name} ${version} (${license ?? 'see below'})\n\n${text}`
    })
  writeFileSync(join(dist, 'THIRD-PARTY-LICENSES.txt'), `${texts.join(`\n\n${'-'.repeat(72)}\n\n`)}\n`)
}

/** What the program reads at run time beside its code: pages and texts. */
function carryOver(): void {
  for (const file of globSync('**/*.{json,html,css,md,txt}', { cwd: join(root, 'src') })) {
    const target = join(dist, file)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, readFileSync(join(root, 'src', file)))
  }
}

compile()
writeLicences(await joinModules())
carryOver()
