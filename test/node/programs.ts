import type { Program } from './simulated-keepers.ts'

/** Works, takes messages, and ends when it is told `end`, by a message or its brief. */
export function worker(): Program {
  return {
    started: (io) => io.line(`session ${io.launch.args[0]}`),
    input: (io, line) => {
      const [word, id = '', ...rest] = line.split(' ')
      if (word === 'brief') io.line(`text working on ${[id, ...rest].join(' ')}`)
      if (word === 'steer') io.line(`took ${id}`)
      if (line.endsWith('end')) io.line('result all done')
      if (word === 'interrupt') io.exit(130)
    },
    inputClosed: (io) => io.exit(0),
  }
}

/** As the worker, but deaf to interrupts: only the end of its process tree stops it. */
export function stubborn(): Program {
  const program = worker()
  return {
    ...program,
    input: (io, line) => {
      if (line !== 'interrupt') program.input?.(io, line)
    },
  }
}
