/** `npm run build`: src/ to dist/, by the compiler alone. No bundler; see docs/decisions/0002. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, globSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'

const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')

rmSync(dist, { recursive: true, force: true })
const compiler = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
})
if (compiler.status !== 0) process.exit(compiler.status ?? 1)

// What the compiler does not carry over: generated JavaScript, pages and texts read at run time.
const carried = ['**/*.js', '**/*.json', '**/*.html', '**/*.css', '**/*.md', '**/*.txt']
for (const file of globSync(carried, { cwd: join(root, 'src') })) {
  const target = join(dist, file)
  if (!existsSync(target)) cpSync(join(root, 'src', file), target)
}
