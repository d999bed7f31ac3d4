/** Ends a serving process in order, once, however it is asked to. */
export interface Lifetime {
  /** Aborts when the process is asked to end. */
  readonly signal: AbortSignal
  /** Asks it to end. */
  end(): void
  /** Resolves once it was asked to end. */
  readonly ending: Promise<void>
}

export function processLifetime(): Lifetime {
  const controller = new AbortController()
  const ending = new Promise<void>((resolve) =>
    controller.signal.addEventListener('abort', () => resolve(), { once: true }),
  )
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      // Asked twice: what is durable is durable, so leaving at once loses nothing.
      if (controller.signal.aborted) process.exit(name === 'SIGINT' ? 130 : 143)
      process.exitCode = name === 'SIGINT' ? 130 : 143
      controller.abort()
    })
  }
  return { signal: controller.signal, ending, end: () => controller.abort() }
}
