# program: Ruby
# packages: ruby
exec ruby -rtimeout -e '
def wait(name)
  s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  begin; yield; rescue Timeout::Error; end
  puts "200 #{((Process.clock_gettime(Process::CLOCK_MONOTONIC) - s) * 1000).to_i} #{name}"
end
wait("sleep") { sleep 0.2 }
wait("Timeout") { Timeout.timeout(0.2) { sleep 5 } }
wait("IO.select") { r, w = IO.pipe; IO.select([r], nil, nil, 0.2) }
wait("ConditionVariable") { m = Mutex.new; m.synchronize { ConditionVariable.new.wait(m, 0.2) } }'
