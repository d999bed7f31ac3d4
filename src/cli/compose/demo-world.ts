import type { DemoWorld } from '../commands/demo.ts'
import type { Context } from '../compose.ts'

export function demoWorld(context: Context): DemoWorld {
  return {
    io: context.io,
    run: async (options, tell) => {
      const { runDemo } = await import('../demo/run.ts')
      return await runDemo(
        context,
        { withClaude: options.claude === true, ...(options.home === undefined ? {} : { home: options.home }) },
        tell,
      )
    },
  }
}
